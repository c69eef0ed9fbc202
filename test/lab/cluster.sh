# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154
#
# A private Slurm cluster on this machine: its own munged, slurmctld and one slurmd a node, on free
# ports, with all files in one folder. Several run side by side, each with its own TRANCHE_LAB.
# Sourced after setup.sh; the options of a cluster are the variables opt_*. Only processes started here are ever stopped: each is remembered by its
# pid and the kernel's start time of that pid.

lab=${TRANCHE_LAB:-$top/build/lab}
lab=$(realpath -m "$lab")
lab_root= # where the files really are: $lab, or a shorter, reachable place (lab_place)

# --- processes ---------------------------------------------------------------------------------

# process_started PID: the kernel's start time of that process, in ticks since boot.
process_started() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    stat=${stat##*) }
    # shellcheck disable=SC2086
    set -- $stat
    printf '%s\n' "${20}"
}

# spawn NAME COMMAND...: starts a daemon of ours that stays in the foreground of its own session.
spawn() {
    local name=$1
    shift
    printf '%q ' "$@" >"$lab_root/run/$name.command"
    (cd "$lab_root/log" && TRANCHE_LAB_ROOT=$lab_root exec setsid "$@") \
        </dev/null >>"$lab_root/log/$name.out" 2>&1 8>&- 9>&- &
    printf '%s %s\n' $! "$(process_started $!)" >"$lab_root/run/$name.owned"
    disown $!
}

# owned NAME: prints the pid of that daemon if it is alive and still the process we started.
owned() {
    local pid started
    read -r pid started 2>/dev/null <"$lab_root/run/$1.owned" || return 1
    [[ $(process_started "$pid") == "$started" ]] || return 1
    # A dead child that nobody has waited for yet is not alive.
    [[ $(sed 's/.*) //; s/ .*//' "/proc/$pid/stat" 2>/dev/null) != Z ]] || return 1
    printf '%s\n' "$pid"
}

# end NAME [SECONDS]: SIGTERM, and SIGKILL when it has not gone after that time.
end() {
    local pid tries=$((${2:-10} * 20))
    pid=$(owned "$1") || {
        rm -f "$lab_root/run/$1.owned"
        return 0
    }
    kill -TERM "$pid" 2>/dev/null
    while owned "$1" >/dev/null; do
        if ((tries-- == 0)); then
            [[ ${2:-10} == 1 ]] || say "$1 (pid $pid) did not stop and was killed"
            kill -KILL "$pid" 2>/dev/null
        fi
        sleep 0.05
    done
    rm -f "$lab_root/run/$1.owned"
}

# wait_for SECONDS DAEMON WHAT COMMAND...: polls until COMMAND succeeds, as long as DAEMON lives.
wait_for() {
    local tries=$(($1 * 20)) daemon=$2 what=$3
    shift 3
    until "$@" >/dev/null 2>&1; do
        { ((tries-- > 0)) && owned "$daemon" >/dev/null; } || {
            tell_log "$daemon"
            fail "$what did not happen; the logs are in $lab_root/log"
        }
        sleep 0.05
    done
}

# tell_log DAEMON: the end of what it said, without the debugging lines.
tell_log() {
    local log=$lab_root/log/$1.log
    [[ -s $log ]] || log=$lab_root/log/$1.out
    say "--- the end of $log"
    grep -v 'debug' "$log" 2>/dev/null | tail -n 12 >&2 || true
}

# --- place and ports ---------------------------------------------------------------------------

# Sockets have short names only, and users other than root must reach the files: if the lab's own
# folder cannot serve, the files go to a fresh one in /tmp that $lab/root points to.
lab_place() {
    mkdir -p "$lab"
    if ((${#lab} <= 60)) && setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$lab" \
        2>/dev/null; then
        lab_root=$lab/root
        mkdir -p "$lab_root"
    else
        lab_root=$(mktemp -d /tmp/tranche-lab.XXXXXX)
        chmod 755 "$lab_root"
        ln -sfn "$lab_root" "$lab/root"
    fi
}

lab_find() {
    lab_root=$(readlink -f "$lab/root" 2>/dev/null) && [[ -f $lab_root/lab.options ]]
}

# lab_ports COUNT: the first of COUNT consecutive TCP ports that nobody listens on and that no other
# lab has chosen in the last minute. Below the kernel's ephemeral range.
lab_ports() {
    local count=$1 taken first port book=/tmp/tranche-lab.ports now free
    [[ -e $book ]] || : >"$book"
    exec 9<>"$book"
    flock 9
    now=$(date +%s)
    taken=" $(ss -ltnH 2>/dev/null | awk '{sub(/.*:/, "", $4); print $4}' | tr '\n' ' ') "
    # Lines of the book: when first count
    taken+=$(awk -v now="$now" '$1 > now - 60 {for (i = 0; i < $3; ++i) printf "%d ", $2 + i}' "$book")
    for ((first = 17000 + RANDOM % 100 * 100; ; first += 100)); do
        ((first + count < 32000)) || first=17000
        free=yes
        for ((port = first; port < first + count; ++port)); do
            if [[ $taken == *" $port "* ]]; then
                free=no
                break
            fi
        done
        [[ $free == yes ]] && break
    done
    {
        awk -v now="$now" '$1 > now - 60' "$book"
        printf '%s %s %s\n' "$now" "$first" "$count"
    } >"$book.new"
    cat "$book.new" >"$book"
    rm -f "$book.new"
    exec 9>&-
    printf '%s\n' "$first"
}

# --- configuration -----------------------------------------------------------------------------

# set_option FILE KEY=VALUE: replaces the line of that key, or adds one. KEY+=VALUE appends to the
# value after a comma. PartitionName and NodeName lines are known by their name as well.
set_option() {
    local file=$1 key=${2%%=*} value=${2#*=} match append=
    [[ $2 == *=* && -n $key ]] || fail "--set $2: KEY=VALUE is expected"
    if [[ $key == *+ ]]; then
        key=${key%+}
        append=yes
    fi
    match="^[[:space:]]*${key}[[:space:]]*="
    case ${key,,} in
        partitionname | nodename | contract) match+="[[:space:]]*${value%% *}([[:space:]]|\$)" ;;
    esac
    if [[ -n $append ]]; then
        local old
        old=$(grep -iE "$match" "$file" | tail -n 1)
        [[ -n $old ]] && value="${old#*=},$value"
    fi
    grep -viE "$match" "$file" >"$file.new" || true
    printf '%s=%s\n' "$key" "$value" >>"$file.new"
    mv -f "$file.new" "$file"
}

lab_write_configuration() {
    local first=$1 nodes=$2 gpus=$3 etc=$lab_root/etc text auth plugins system
    system=$(dirname "$(ldd "$(command -v slurmctld)" | awk '/libslurmfull/ {print $3}')")
    auth=socket=$lab_root/run/munge.socket
    plugins=$system
    [[ $opt_stock == yes ]] || plugins=$lab_root/lib:$system
    text=$(cat "$top/test/lab/slurm.conf.in")
    text=${text//@ROOT@/$lab_root}
    text=${text//@PORT@/$first}
    text=${text//@AUTHINFO@/$auth}
    text=${text//@PLUGINDIR@/$plugins}
    text=${text//@NODES@/g[1-$nodes]}
    text=${text//@NODEPORTS@/[$((first + 4))-$((first + 3 + nodes))]}
    text=${text//@CPUS@/$((gpus > 16 ? 2 * gpus : 32))}
    text=${text//@GPUS@/$gpus}
    {
        printf '%s\n' "$text"
        if [[ $opt_stock == yes ]]; then
            printf '%s\n' PriorityType=priority/multifactor KillWait=5 \
                SchedulerParameters=bf_continue,bf_interval=1,batch_sched_delay=1
        else
            grep -v '^#' "$top/etc/slurm.conf.example"
        fi
    } >"$etc/slurm.conf"
    [[ $opt_stock == yes ]] ||
        sed -i 's/bf_interval=[0-9]*/bf_interval=1/' "$etc/slurm.conf"
    printf 'AutoDetect=off\nNodeName=g[1-%d] Name=gpu File=%s/dev/gpu[0-%d]\n' \
        "$nodes" "$lab_root" $((gpus - 1)) >"$etc/gres.conf"
    if [[ $opt_stock == yes ]]; then
        : >"$etc/plugstack.conf"
    else
        sed "s|spank_contract.so|$lab_root/lib/spank_contract.so|" \
            "$top/etc/plugstack.conf.example" >"$etc/plugstack.conf"
        printf 'ServicePort=%s\nRankInterval=1\n' $((first + 1)) >"$etc/tranche.conf"
    fi
    if [[ $opt_slurmdbd == yes ]]; then
        set_option "$etc/slurm.conf" AccountingStorageType=accounting_storage/slurmdbd
        set_option "$etc/slurm.conf" AccountingStorageHost=127.0.0.1
        set_option "$etc/slurm.conf" AccountingStoragePort=$((first + 2))
        set_option "$etc/slurm.conf" "AccountingStoragePass=$lab_root/run/munge.socket"
        set_option "$etc/slurm.conf" AccountingStorageTRES=gres/gpu
        set_option "$etc/slurm.conf" AccountingStorageEnforce=associations,limits
        cat >"$etc/slurmdbd.conf" <<EOF
AuthType=auth/munge
AuthInfo=socket=$lab_root/run/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((first + 2))
SlurmUser=root
LogFile=$lab_root/log/slurmdbd.log
PidFile=$lab_root/run/slurmdbd.pid
DebugLevel=verbose
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
EOF
        chmod 600 "$etc/slurmdbd.conf"
    fi
    if [[ -n $opt_faketime ]]; then
        # Slurm's own patience is in seconds of the fast clock: give it back its real length.
        set_option "$etc/slurm.conf" "AuthInfo=$auth,ttl=3600"
        local line
        for line in MessageTimeout=100 TCPTimeout=100 SlurmdTimeout=3600 SlurmctldTimeout=3600 \
            BatchStartTimeout=3600 UnkillableStepTimeout=3600 KillWait=30; do
            set_option "$etc/slurm.conf" "$line"
        done
        local interval=$((opt_faketime / 6 + 1))
        sed -i "s/bf_interval=[0-9]*/bf_interval=$interval/" "$etc/slurm.conf"
        [[ $opt_stock == yes ]] || set_option "$etc/tranche.conf" "RankInterval=$interval"
    fi
    local setting
    for setting in "${opt_settings[@]}"; do
        case $setting in
            tranche:*)
                [[ $opt_stock != yes ]] || fail "--set $setting: a stock cluster has no tranche.conf"
                set_option "$etc/tranche.conf" "${setting#tranche:}"
                ;;
            *) set_option "$etc/slurm.conf" "$setting" ;;
        esac
    done
}

# Copies what was built, so that a later build changes nothing under a running cluster.
lab_install() {
    local library program
    for library in libtranche priority_budget preempt_contract job_submit_contract spank_contract; do
        [[ -f $setup_build/.libs/$library.so ]] ||
            fail "$setup_build/.libs/$library.so is not built (make -C $setup_build)"
        cp "$setup_build/.libs/$library.so" "$lab_root/lib/"
    done
    for program in "$setup_build"/*; do
        [[ -f $program && -x $program ]] || continue
        case ${program##*/} in
            *_tests | benchmarks | settings_text | libtool | config.status) continue ;;
        esac
        cp "$program" "$lab_root/bin/"
    done
    for program in "$top"/src/tools/*; do
        if [[ -f $program && -x $program ]]; then cp "$program" "$lab_root/bin/"; fi
    done
}

# --- start, stop -------------------------------------------------------------------------------

# All processes of a lab with --faketime count from one start: the first of them keeps the shared
# clock (FAKETIME_SHARED names it) for the others.
lab_start_clock() {
    local library shared
    library=$(find /usr/lib -name libfaketimeMT.so.1 2>/dev/null | head -n 1)
    [[ -n $library ]] || fail "libfaketimeMT.so.1 is not installed"
    export FAKETIME="+0 x$opt_faketime" FAKETIME_DONT_RESET=1
    # The words below are for the shell that is started.
    # shellcheck disable=SC2016
    LD_PRELOAD=$library spawn clock bash -c \
        'printf "%s\n" "$FAKETIME_SHARED" >"$0"; exec tail -f /dev/null' "$lab_root/run/clock.shared"
    wait_for 5 clock "the common clock" test -s "$lab_root/run/clock.shared"
    FAKETIME_SHARED=$(cat "$lab_root/run/clock.shared")
    export FAKETIME_SHARED
    # Users other than root follow the same clock.
    for shared in ${FAKETIME_SHARED//[^a-zA-Z0-9_. -]/ }; do
        chmod 666 "/dev/shm/$shared" "/dev/shm/sem.$shared" 2>/dev/null || true
    done
    lab_preload=$library
    cat >"$lab_root/lab.clock" <<EOF
export LD_PRELOAD='$library'
export FAKETIME='$FAKETIME'
export FAKETIME_DONT_RESET=1
export FAKETIME_SHARED='$FAKETIME_SHARED'
EOF
}

# clocked COMMAND...: runs it in the lab's time.
clocked() {
    if [[ -f $lab_root/lab.clock ]]; then
        (
            # shellcheck disable=SC1091
            source "$lab_root/lab.clock"
            exec "$@"
        )
    else
        "$@"
    fi
}

lab_spawn_daemon() {
    local name=$1
    shift
    if [[ -n ${lab_preload:-} ]]; then
        spawn "$name" env "LD_PRELOAD=$lab_preload" "$@"
    else
        spawn "$name" "$@"
    fi
}

munge_answers() { clocked munge -n -S "$lab_root/run/munge.socket"; }
controller_answers() { clocked env SLURM_CONF="$lab_root/etc/slurm.conf" scontrol ping | grep -q UP; }
nodes_are_idle() {
    local states
    states=$(clocked env SLURM_CONF="$lab_root/etc/slurm.conf" sinfo -h -N -o %T) || return 1
    [[ -n $states ]] && ! grep -qv '^idle$' <<<"$states"
}
database_answers() { mariadb-admin --no-defaults -u root --socket="$lab_root/run/mysql.socket" ping; }
slurmdbd_answers() {
    clocked env SLURM_CONF="$lab_root/etc/slurm.conf" sacctmgr -n show cluster
}

lab_start_database() {
    local template=$top/build/mariadb
    if [[ ! -f $template/ready ]]; then
        rm -rf "$template"
        mariadb-install-db --no-defaults --user=root --datadir="$template" --skip-test-db \
            --auth-root-authentication-method=normal --innodb-log-file-size=8M \
            >"$lab_root/log/mariadb-install.log" 2>&1 ||
            fail "mariadb-install-db failed; see $lab_root/log/mariadb-install.log"
        : >"$template/ready"
    fi
    cp -a "$template" "$lab_root/spool/mariadb"
    # Outside the fast clock: the database only keeps what slurmdbd says.
    spawn mariadb env -u FAKETIME mariadbd --no-defaults --user=root \
        --datadir="$lab_root/spool/mariadb" --socket="$lab_root/run/mysql.socket" \
        --pid-file="$lab_root/run/mariadbd.pid" --skip-networking --innodb-log-file-size=8M \
        --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0 \
        --innodb-lock-wait-timeout=900
    wait_for 20 mariadb "MariaDB's start" database_answers
    # slurmdbd reaches it by the default socket name of the client library.
    export MYSQL_UNIX_PORT=$lab_root/run/mysql.socket
    lab_spawn_daemon slurmdbd slurmdbd -D
    wait_for 20 slurmdbd "slurmdbd's start" slurmdbd_answers
    local sacctmgr=(clocked env SLURM_CONF="$lab_root/etc/slurm.conf" sacctmgr -i -Q)
    "${sacctmgr[@]}" add cluster lab >>"$lab_root/log/sacctmgr.out" 2>&1 || true
}

# lab_start: with opt_nodes, opt_gpus, opt_slurmdbd, opt_stock, opt_faketime, opt_settings.
lab_start() {
    local first node
    [[ $(id -u) == 0 ]] || fail "a private cluster runs jobs of several users and needs root"
    if lab_find; then
        ! owned slurmctld >/dev/null || fail "a cluster runs already in $lab (--stop ends it)"
        lab_stop_processes
        rm -rf "${lab_root:?}"
    fi
    rm -rf "$lab/root"
    lab_place
    mkdir -p "$lab_root"/{bin,lib,etc,run,log,dev,spool/slurmctld,work}
    chmod 1777 "$lab_root/work"
    [[ $opt_stock == yes ]] || lab_install
    first=$(lab_ports $((opt_nodes + 4)))
    declare -p opt_nodes opt_gpus opt_slurmdbd opt_stock opt_faketime opt_settings \
        >"$lab_root/lab.options"
    # GPUs without hardware: Slurm wants a device file for each, any will do. Where none may be made
    # (some containers) a plain file is counted too, with an error in slurmd's log.
    for ((node = 0; node < opt_gpus; ++node)); do
        mknod "$lab_root/dev/gpu$node" c 1 3 2>/dev/null || : >"$lab_root/dev/gpu$node"
    done
    lab_write_configuration "$first" "$opt_nodes" "$opt_gpus"
    trap lab_stop_processes EXIT # unless all of it comes up
    export SLURM_CONF=$lab_root/etc/slurm.conf
    [[ -z $opt_faketime ]] || lab_start_clock
    head -c 128 /dev/urandom >"$lab_root/etc/munge.key"
    chmod 400 "$lab_root/etc/munge.key"
    lab_spawn_daemon munged munged --foreground --force --key-file="$lab_root/etc/munge.key" \
        --socket="$lab_root/run/munge.socket" --pid-file="$lab_root/run/munged.pid" \
        --seed-file="$lab_root/run/munge.seed" --num-threads=4
    wait_for 5 munged "munged's start" munge_answers
    [[ $opt_slurmdbd != yes ]] || lab_start_database
    lab_spawn_daemon slurmctld slurmctld -D
    for ((node = 1; node <= opt_nodes; ++node)); do
        mkdir -p "$lab_root/spool/g$node"
        lab_spawn_daemon "g$node" slurmd -D -N "g$node"
    done
    wait_for 20 slurmctld "slurmctld's start" controller_answers
    wait_for 30 g1 "the nodes' registration" nodes_are_idle
    trap - EXIT
}

# Daemons by name: slurmctld, slurmdbd, mariadb, munged, g1 ...
lab_start_one() {
    local name=$1 command
    lab_find || fail "there is no cluster in $lab"
    ! owned "$name" >/dev/null || fail "$name runs already"
    [[ -f $lab_root/run/$name.command ]] || fail "this cluster has no daemon $name"
    # Written by spawn with printf %q.
    eval "command=($(cat "$lab_root/run/$name.command"))"
    # shellcheck disable=SC1090,SC1091
    [[ ! -f $lab_root/lab.clock ]] || source <(grep -v LD_PRELOAD "$lab_root/lab.clock")
    export SLURM_CONF=$lab_root/etc/slurm.conf MYSQL_UNIX_PORT=$lab_root/run/mysql.socket
    # shellcheck disable=SC2128
    spawn "$name" "${command[@]}"
    [[ $name != slurmctld ]] || wait_for 20 slurmctld "slurmctld's start" controller_answers
}
lab_stop_one() {
    lab_find || fail "there is no cluster in $lab"
    [[ -f $lab_root/run/$1.command ]] || fail "this cluster has no daemon $1"
    local pid
    if [[ ${2:-TERM} == KILL ]] && pid=$(owned "$1"); then kill -KILL "$pid"; fi
    end "$1" 20
}

# Step daemons of this cluster (they hold files of it open; their environment is overwritten), and
# whatever else was started by its daemons or by its jobs (their environment names the cluster).
lab_steps() {
    local exe
    find /proc/[0-9]*/exe -maxdepth 0 -lname '*/slurmstepd*' 2>/dev/null | while read -r exe; do
        exe=${exe%/exe}
        if [[ -n $(find "$exe/fd" -lname "$lab_root/*" -print -quit 2>/dev/null) ]]; then
            printf '%s\n' "${exe#/proc/}"
        fi
    done
}
lab_job_processes() {
    lab_steps
    { grep -lzxF "SLURM_CONF=$lab_root/etc/slurm.conf" /proc/[0-9]*/environ 2>/dev/null |
        xargs -r grep -lz '^SLURM_JOB_ID=' 2>/dev/null || true; } |
        sed -n 's|^/proc/\([0-9]*\)/environ|\1|p'
}
lab_leftovers() {
    lab_job_processes
    { grep -lzxF "TRANCHE_LAB_ROOT=$lab_root" /proc/[0-9]*/environ 2>/dev/null || true; } |
        sed -n 's|^/proc/\([0-9]*\)/environ|\1|p'
}

lab_stop_processes() {
    local name pid tries left
    if owned slurmctld >/dev/null; then
        # No job may start again while the running ones are killed, and their step daemons must
        # still find slurmd and slurmctld.
        clocked env SLURM_CONF="$lab_root/etc/slurm.conf" bash -c '
            timeout -k 1 5 scancel --state=PENDING
            timeout -k 1 5 scancel --state=RUNNING --signal=KILL --full
            timeout -k 1 5 scancel --state=RUNNING
            timeout -k 1 5 scancel --state=SUSPENDED' >/dev/null 2>&1 || true
        for ((tries = 0; tries < 20; ++tries)); do
            [[ -n $(lab_steps) ]] || break
            sleep 0.05
        done
        # The deaf would make slurmd wait for KillWait.
        left=$(lab_job_processes)
        # shellcheck disable=SC2086
        [[ -z $left ]] || kill -KILL $left 2>/dev/null || true
    fi
    # slurmd first: it has to tell slurmctld that jobs are over. Without one it waits in vain.
    local patience=5
    owned slurmctld >/dev/null || patience=1
    for name in "$lab_root"/run/g*.owned; do
        [[ -f $name ]] || continue
        name=$(basename "$name" .owned)
        if pid=$(owned "$name"); then kill -TERM "$pid"; fi
    done
    for name in "$lab_root"/run/g*.owned; do
        if [[ -f $name ]]; then end "$(basename "$name" .owned)" "$patience"; fi
    done
    end slurmctld 10
    end slurmdbd 10
    end mariadb 20
    end munged 5
    end clock 2
    # Twice nothing: a step daemon that was just being started has no file open for a moment.
    local nothing=0
    for ((tries = 0; tries < 40 && nothing < 2; ++tries)); do
        left=$(lab_leftovers)
        if [[ -z $left ]]; then ((++nothing)); else nothing=0; fi
        # shellcheck disable=SC2086
        [[ -z $left ]] || kill -KILL $left 2>/dev/null || true
        sleep 0.05
    done
}

lab_stop() {
    lab_find || return 0
    lab_stop_processes
    # What remains is for reading: configuration and logs.
    rm -rf "$lab_root/lab.options" "${lab_root:?}"/spool
}

lab_environment() {
    if ! lab_find || ! owned slurmctld >/dev/null; then
        fail "no cluster runs in $lab (--start begins one)"
    fi
    # The shell that reads these lines expands the old values.
    # shellcheck disable=SC2016
    printf 'export SLURM_CONF=%q\nexport PATH=%q:"$PATH"\nexport MANPATH=%q:"${MANPATH:-}"\n' \
        "$lab_root/etc/slurm.conf" "$lab_root/bin" "$top/doc/man"
    printf 'export TRANCHE_LAB=%q\n' "$lab"
    [[ ! -f $lab_root/lab.clock ]] || cat "$lab_root/lab.clock"
}
