# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034
#
# What quickstart and runtests need before a cluster can run: Debian's packages, Slurm's source of the
# installed version, and our own build. Sourced; the caller has set `top` (the checkout).
# Everything is skipped that is there already, so that a second run needs no network.

setup_build=${TRANCHE_BUILD:-$top/build}
setup_source=$top/build/slurm-source

say() { printf '%s\n' "$*" >&2; }
fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Debian packages: to build, to run a cluster, and for the options that need more.
packages_build=(build-essential autoconf automake libtool pkg-config dpkg-dev libmunge-dev
    libjansson-dev libsqlite3-dev zlib1g-dev libhwloc-dev libgtest-dev libslurm-dev)
packages_cluster=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge iproute2 procps
    util-linux)
packages_slurmdbd=(slurmdbd slurm-wlm-mysql-plugin mariadb-server)
packages_faketime=(libfaketime)
packages_tests=(python3 python3-pytest clang clang-format clang-tidy libclang-rt-dev
    libbenchmark-dev chromium fonts-dejavu-core)

# setup_packages NAME...: installs the packages that are missing.
setup_packages() {
    local name installed missing=()
    installed=$(dpkg-query -W -f '${Package} ${Status}\n' "$@" 2>/dev/null) || true
    for name in "$@"; do
        grep -qx "$name install ok installed" <<<"$installed" || missing+=("$name")
    done
    ((${#missing[@]})) || return 0
    [[ $(id -u) == 0 ]] ||
        fail "these Debian packages are missing, and installing them needs root: ${missing[*]}"
    say "Installing ${missing[*]}"
    # Installed daemons would start with the machine's own (missing) configuration: not wanted here.
    local policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
        # shellcheck disable=SC2064
        trap "rm -f $policy" EXIT
    fi
    {
        apt-get -qq update &&
            DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
                "${missing[@]}"
    } >"$top/build/apt.log" 2>&1 ||
        fail "apt-get could not install ${missing[*]}; see $top/build/apt.log"
    if [[ -e $policy ]] && grep -qx 'exit 101' $policy; then rm -f $policy; fi
}

# The apt lists of this machine, asking for sources, in a folder of their own: the machine's lists
# and cache are not touched, and no host name is written anywhere but there.
apt_source_lists() {
    local to=$1 file
    mkdir -p "$to/parts" "$to/lists/partial" "$to/cache/archives/partial"
    rm -f "$to"/parts/*
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [[ -f $file ]] || continue
        sed -n -E 's/^[[:space:]]*deb[[:space:]]/deb-src /p' "$file" \
            >"$to/parts/$(basename "$file" .list).list"
    done
    for file in /etc/apt/sources.list.d/*.sources; do
        [[ -f $file ]] || continue
        sed -E 's/^Types:.*/Types: deb-src/I' "$file" >"$to/parts/$(basename "$file")"
    done
}

# setup_slurm_source: unpacks and configures the source of the installed Slurm.
setup_slurm_source() {
    local package version installed found
    read -r package version < <(dpkg-query -W \
        -f '${source:Package} ${source:Version}\n' slurmctld 2>/dev/null) || true
    [[ -n ${version:-} ]] || fail "slurmctld is not installed"
    installed="$package $version"
    if [[ $(cat "$setup_source/ready" 2>/dev/null) == "$installed" ]]; then return 0; fi
    say "Getting the source of Slurm $version"
    mkdir -p "$setup_source"
    local apt="$setup_source/apt"
    apt_source_lists "$apt"
    local options=(-qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$apt/parts"
        -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
    # A list without sources makes update complain; what counts is whether ours is found.
    apt-get "${options[@]}" update >"$setup_source/apt.log" 2>&1 || true
    if ! (cd "$setup_source" &&
        apt-get "${options[@]}" source --download-only "$package=$version") \
        >>"$setup_source/apt.log" 2>&1; then
        # Another Debian revision of the same upstream release has the same structures.
        found=$(apt-cache "${options[@]}" showsrc "$package" 2>>"$setup_source/apt.log" |
            sed -n 's/^Version: //p' | grep -F "${version%-*}-" | head -n 1) || true
        [[ -n $found ]] ||
            fail "apt has no source of $package $version; see $setup_source/apt.log"
        version=$found
        (cd "$setup_source" && apt-get "${options[@]}" source --download-only \
            "$package=$version") >>"$setup_source/apt.log" 2>&1 ||
            fail "apt could not get the source of $package $version; see $setup_source/apt.log"
    fi
    rm -rf "$setup_source/src" "$setup_source/hdr" "$apt"
    dpkg-source -x "$setup_source/${package}_${version#*:}.dsc" "$setup_source/src" \
        >"$setup_source/unpack.log" 2>&1 ||
        fail "the source of $package does not unpack; see $setup_source/unpack.log"
    say "Configuring it (only for its headers, nothing of Slurm is compiled)"
    mkdir -p "$setup_source/hdr"
    # As Debian configures it: the options decide the layout of some structures.
    (cd "$setup_source/hdr" && ../src/configure --prefix=/usr --sysconfdir=/etc/slurm --with-munge \
        --without-rpath --disable-debug --enable-multiple-slurmd --enable-pam) \
        >"$setup_source/configure.log" 2>&1 ||
        fail "Slurm's configure failed; see $setup_source/configure.log"
    printf '%s\n' "$installed" >"$setup_source/ready"
}

# setup_configure FOLDER [OPTION...]: makes FOLDER a build folder of ours.
setup_configure() {
    local folder=$1
    shift
    if [[ ! -x $top/configure || $top/configure.ac -nt $top/configure ]]; then
        (cd "$top" && autoreconf -i) >"$top/build/autoreconf.log" 2>&1 ||
            fail "autoreconf failed; see $top/build/autoreconf.log"
    fi
    [[ -f $folder/Makefile && $(cat "$folder/configured" 2>/dev/null) == "$*" ]] && return 0
    mkdir -p "$folder"
    say "Configuring Tranche in ${folder#"$top"/}"
    (cd "$folder" && "$top/configure" --with-slurm-source="$setup_source/src" \
        --with-slurm-build="$setup_source/hdr" "$@") >"$folder/configure.log" 2>&1 ||
        fail "configure failed: $(grep -m 1 'error:' "$folder/configure.log"); see $folder/configure.log"
    printf '%s\n' "$*" >"$folder/configured"
}

# setup_make FOLDER [TARGET...]
setup_make() {
    local folder=$1
    shift
    make -s -j"$(nproc)" -C "$folder" "$@" >"$folder/make.log" 2>&1 ||
        fail "make failed; see $folder/make.log:
$(grep -E 'error:|undefined reference|No rule' "$folder/make.log" | head -n 12)"
}

# locked COMMAND...: no two at once, here or in another shell, change anything under build/.
locked() {
    mkdir -p "$top/build"
    (
        flock -n 8 || { say "Waiting for another build in $top/build" && flock 8; }
        "$@"
    ) 8>"$top/build/lock"
}

# setup: everything up to a finished build in $setup_build. With TRANCHE_BUILD set, that build is
# taken as it is.
setup() {
    mkdir -p "$top/build"
    if [[ -n ${TRANCHE_BUILD:-} ]]; then
        [[ -f $TRANCHE_BUILD/Makefile ]] || fail "TRANCHE_BUILD=$TRANCHE_BUILD has no Makefile"
        setup_packages "${packages_cluster[@]}" "$@"
    else
        locked setup_unlocked "$@"
    fi
}
setup_unlocked() {
    setup_packages "${packages_build[@]}" "${packages_cluster[@]}" "$@"
    setup_slurm_source
    setup_configure "$setup_build"
    [[ -f $setup_build/.libs/priority_budget.so ]] || say "Building Tranche (a few minutes the first time)"
    setup_make "$setup_build"
}
