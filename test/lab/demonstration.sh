# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The demonstration of quickstart: two groups share 32 GPUs. A week is counted in ten minutes and a
# contract lasts 20 seconds, so that it is over soon; all else is as it would be in earnest. Every step waits until it has really
# happened, says how long that took, and ends the demonstration if it does not. Sourced after
# cluster.sh.

if [[ -t 1 ]]; then bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' plain=$'\e[0m'; else
    bold='' dim='' green='' plain=''
fi

chapter() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }
tell() { printf '%s\n' "$@"; }
seen() { printf '%s  seen:%s %s\n' "$green" "$plain" "$*"; }
# show COMMAND...: as a person would type it, with its answer.
show() {
    printf '%s$%s %s\n' "$dim" "$plain" "$*"
    "$@" || fail "the demonstration ends here: '$*' failed"
}
now_milli() { date +%s%3N; }
seconds_of() { printf '%d.%02d' $(($1 / 1000)) $(($1 % 1000 / 10)); }

# job_field JOB FIELD: of scontrol show job.
job_field() { scontrol -o show job "$1" 2>/dev/null | grep -oE "(^| )$2=[^ ]*" | cut -d= -f2- | tail -n 1; }
job_is() { [[ $(squeue -h -t all -j "$1" -o %T 2>/dev/null) == "$2" ]]; }
job_was_requeued() { [[ $(job_field "$1" Restarts) == 1 ]]; }

# until_seen SECONDS WHAT COMMAND...
until_seen() {
    local tries=$(($1 * 20)) what=$2
    shift 2
    until "$@"; do
        if ((tries-- == 0)); then
            squeue -o '%.6i %.10a %.9T %.8M %.12b %.11Q %R'
            tell_log slurmctld
            fail "not seen: $what"
        fi
        sleep 0.05
    done
}

# demo_submit OPTION... : submits a training that leaves when it is told, prints its id. What sbatch
# says to the user goes to the terminal.
demo_submit() {
    printf '%s$%s sbatch %s train.sh\n' "$dim" "$plain" "$*" >&2
    sbatch --parsable --output=%x-%j.out --open-mode=append "$@" train.sh
}

# Small jobs only are debug jobs: the trainings of 8 GPUs are to show budgets, not the express lane.
demonstration_settings=(tranche:LookbackWindow=10:00 tranche:ExpressGPUs=2)

demonstration() {
    local begin job taken claimant debug at waited victim line id runs=()
    begin=$(now_milli)
    eval "$(lab_environment)"
    cd "$lab_root/work" || fail "$lab_root/work is gone"
    cat >train.sh <<'EOF'
#!/bin/bash
date "+first line at %s%3N" >>"$SLURM_JOB_NAME-$SLURM_JOB_ID.first"
echo "run ${TRANCHE_RUN:-?} of job $SLURM_JOB_ID, protected until ${TRANCHE_PROTECTED_UNTIL:-?}"
srun sleep 600
EOF

    chapter "1. Fund research with shares of GPU time"
    tell "32 GPUs on 4 nodes. Language research gets 70 shares, vision 30; language divides its own." \
        "Jobs name their Slurm account; a budget of the same name pays. (Shares are paid out over a" \
        "sliding week; here the week is ten minutes long.)"
    show sbudget -i add budget language shares=70
    show sbudget -i add budget vision shares=30
    show sbudget -i add budget pretrain parent=language shares=60
    show sbudget -i add budget eval parent=language shares=40
    show sbudget show tree
    [[ $(sbudget show tree) == *pretrain* ]] || fail "not seen: the tree has no budget pretrain"

    chapter "2. Vision takes the idle cluster, under contracts of 20 seconds"
    tell "Each job declares the shortest run that is worth having. For that long nobody can take its" \
        "GPUs; afterwards it goes on until somebody with a better claim needs them."
    for job in a b c d; do
        id=$(demo_submit --job-name="vision-$job" --account=vision --nodes=1 --gpus=8 \
            --min-runtime=0:20 --resumable)
        runs+=("$id")
    done
    for id in "${runs[@]}"; do until_seen 20 "job $id runs" job_is "$id" RUNNING; done
    seen "all 32 GPUs are busy with vision's four jobs"

    chapter "3. Pretraining wants 8 GPUs: it ranks first, and waits for a contract to end"
    claimant=$(demo_submit --job-name=pretrain --account=pretrain --nodes=1 --gpus=8 \
        --min-runtime=2:00 --resumable)
    id=$(demo_submit --job-name=vision-e --account=vision --nodes=1 --gpus=8 --min-runtime=0:20 \
        --resumable)
    until_seen 10 "job $id is ranked" demo_ranked "$id"
    show srank
    show srank --running
    show srank --why "$claimant"
    job_is "$claimant" PENDING || fail "not seen: job $claimant should wait for the contracts"
    for id in "${runs[@]}"; do
        job_is "$id" RUNNING || fail "not seen: job $id should be protected, and does not run"
    done
    seen "the cluster is full, and all four contracts are respected"

    chapter "4. A contract ends: one job is preempted and requeued, the other starts in its place"
    tell "Nothing else happens in the cluster at that moment; the end of the contract is enough."
    until_seen 40 "job $claimant runs" job_is "$claimant" RUNNING
    taken=
    for id in "${runs[@]}"; do if job_was_requeued "$id"; then taken+="$id "; fi; done
    read -ra victim <<<"$taken"
    ((${#victim[@]} == 1)) || fail "not seen: one job should have been requeued, not: ${taken:-none}"
    line=$(head -n 1 "$(job_field "${victim[0]}" StdOut)")
    at=${line##* }
    [[ $at =~ ^[0-9]+$ ]] || fail "not seen: TRANCHE_PROTECTED_UNTIL in the output of job ${victim[0]}"
    waited=$(($(date -d "$(job_field "$claimant" StartTime)" +%s) - at))
    ((waited >= 0)) || fail "job ${victim[0]} lost its GPUs $((-waited)) s before its contract ended"
    ((waited <= 5)) || fail "job $claimant started only $waited s after the contract's end"
    seen "job ${victim[0]} was protected to its last second; job $claimant started $waited s after"
    seen "job ${victim[0]} is in the queue again under its own id"
    show srank --why "${victim[0]}"

    chapter "5. A debug job on a full cluster starts at once"
    tell "Small and short work takes the place of any run whose contract is over."
    until_seen 30 "the other contracts end" demo_contracts_over "${runs[@]}"
    at=$(now_milli)
    debug=$(demo_submit --job-name=debug --account=eval --nodes=1 --gpus=1 --min-runtime=5:00)
    until_seen 20 "job $debug runs" test -s "debug-$debug.first"
    line=$(head -n 1 "debug-$debug.first")
    waited=$((${line##* } - at))
    seen "from sbatch to the first line of its script: $(seconds_of "$waited") s"
    ((waited <= 5000)) || fail "the debug job waited $(seconds_of "$waited") s"

    chapter "6. Room again: a preempted job goes on under its own id"
    show scancel "$claimant"
    until_seen 20 "one of the requeued jobs runs again" demo_second_run "${runs[@]}"
    until_seen 10 "job $claimant is gone from srank" demo_gone "$claimant"
    show srank --running
    show sbudget show tree
    tell "" "All of it took $(seconds_of $(($(now_milli) - begin))) s."
}

demo_ranked() { srank -n -P -j "$1" 2>/dev/null | grep -q .; }

demo_gone() { ! srank --running -n -P 2>/dev/null | grep -q "^$1|"; }

# Of the requeued jobs, one runs again and says that this is its second run.
demo_second_run() {
    local id
    for id in "$@"; do
        job_was_requeued "$id" && job_is "$id" RUNNING || continue
        grep -q "^run 2 of job $id" "$(job_field "$id" StdOut)" || continue
        seen "job $id runs again; its output goes on where it was:"
        sed 's/^/    /' "$(job_field "$id" StdOut)"
        return 0
    done
    return 1
}

# Of the runs that were not taken, each has passed the end of its contract.
demo_contracts_over() {
    local id line
    for id in "$@"; do
        job_is "$id" RUNNING || continue
        line=$(head -n 1 "$(job_field "$id" StdOut)")
        (($(date +%s) > ${line##* })) || return 1
    done
}
