# SPDX-License-Identifier: GPL-2.0-or-later
"""What a victim goes through: warning, grace, exit, and back into the queue without a penalty.

In compressed time: a minute of the cluster is a second of ours. With slurmdbd, which keeps a record
of each run.
"""

import re

import pytest

from test_main_path import LONG, fund

SPEED = 60
# A credential is forgotten by slurmd before its job is there again: else a requeued job on its old
# node may wait for ever for its prolog (doc/design/live.md), which fast time makes frequent.
evictions = pytest.mark.lab(nodes=2, faketime=SPEED, slurmdbd=True, settings=[
    "tranche:DefaultMinRuntime=0", "tranche:ExpressFraction=0", "tranche:MaxProtectedFraction=1",
    "tranche:GraceTime=60", "tranche:GraceTimeFree=10", "tranche:GraceTimeInteractive=120",
    "tranche:Reservations=0", "tranche:MaxAssemblies=0", "AuthInfo+=cred_expire=30"])
TREE = {"A": {"shares": 1, "users": "games"}, "B": {"shares": 1, "users": "man"}}
DEAF = "trap '' TERM; while true; do sleep 5; done"
# Leaves when told, by turns with success and with failure.
POLITE = "trap 'echo asked; exit $((SLURM_RESTART_COUNT % 2))' USR1; sleep 360000 & wait"


@pytest.fixture
def teams(lab):
    if "all" not in lab.run("sacctmgr", "-nP", "show", "account", "format=account").stdout:
        lab.run("sacctmgr", "-iQ", "add", "account", "all")
        for user in ("games", "man"):
            lab.run("sacctmgr", "-iQ", "add", "user", user, "account=all")
    lab.wait_for("slurmctld knows the users", lambda: "UserName=man" in lab.run(
        "scontrol", "-o", "show", "assoc_mgr", "flags=users").stdout)
    fund(lab, TREE)
    # The other node is B's for hours: there is one to take, and B has had more than A.
    lab.other = lab.sbatch("-N1", "-w", "g2", "--gpus=8", "--min-runtime=8h", script=LONG,
                           user="man")
    lab.wait_for_state(lab.other, "RUNNING")
    return lab


def records(lab, victim):
    """The preemptions of a victim, the last first."""
    shown = lab.json("sbudget", "--json", "show", "preemption")["preemptions"]
    return [record for record in shown if record["victim_job_id"] == victim]


def warned(lab, victim, claimant):
    """The record of that preemption, as soon as the victim is warned."""
    return lab.wait_for(f"{victim} is warned for {claimant}", lambda: next(
        (record for record in records(lab, victim) if record["claimant_job_id"] == claimant), None))


def outcome(lab, victim, claimant):
    return lab.wait_for("the outcome is known", lambda: next(
        (record for record in records(lab, victim)
         if record["claimant_job_id"] == claimant and record["outcome"]), None))


def expired(lab, *options, script=LONG):
    """A run of B whose contract of a minute is over."""
    job = lab.sbatch(*(options or ("-N1", "--gpus=8", "--resumable")), "--min-runtime=1m",
                     script=script, user="man")
    lab.wait_for_state(job, "RUNNING")
    lab.wait_for("its contract is over", lambda: any(
        shown["job_id"] == job and shown.get("protected_until", 1e12) <= lab.now()
        for shown in lab.json("srank", "--running", "--json")["jobs"]))
    return job


def claim(lab, *options, script="sleep 60"):
    return lab.sbatch(*(options or ("-N1", "--gpus=8")), "--min-runtime=1m", script=script,
                      user="games")


def preemptions(lab):
    return lab.json("srank", "--health", "--json")["preemptions"]


def evict_again_and_again(lab, victim, times, sibling, dependents):
    for number in range(times):
        before = lab.restarts(victim)
        lab.wait_for_state(victim, "RUNNING", seconds=30)
        claimant = claim(lab)
        lab.wait_for_state(claimant, "RUNNING", "COMPLETED", seconds=30)
        job = lab.job(victim)
        assert int(job["Restarts"]) == before + 1, number
        assert job["JobState"] in ("PENDING", "RUNNING"), job
        assert "Held" not in job["Reason"] and "held" not in job["Reason"], job
        assert lab.state(sibling) == "PENDING"  # it came later
        assert [lab.job(one)["Reason"] for one in dependents] == ["Dependency"] * len(dependents)
        assert outcome(lab, victim, claimant)["outcome"] == "started"
        lab.wait_for_state(claimant, "COMPLETED", seconds=30)
    lab.wait_for_state(victim, "RUNNING", seconds=30)


@evictions
def test_ten_polite_and_ten_impolite_exits_leave_no_mark(teams):
    """The same job is evicted twenty times; it says goodbye with success, with failure and not at
    all. Nothing that waits for its end is released, and its own end comes once."""
    lab = teams
    # Polite while the file is there.
    script = ("echo run $SLURM_RESTART_COUNT\n"
              "trap '[ -e rude ] || exit $((SLURM_RESTART_COUNT % 2))' USR1\n"
              "while [ ! -e done ]; do sleep 20 & wait $!; done; exit 0")
    victim = lab.sbatch("-N1", "--gpus=8", "--resumable", "--min-runtime=1m", "--signal=B:USR1",
                        "--open-mode=append", script=script, user="man")
    lab.wait_for_state(victim, "RUNNING")
    sibling = lab.sbatch("-N1", "--gpus=8", "--resumable", "--min-runtime=1m", script=LONG,
                         user="man")
    dependents = [lab.sbatch("-n1", f"--dependency={kind}:{victim}", script="exit 0", user="man")
                  for kind in ("afterok", "afterany", "afternotok")]
    evict_again_and_again(lab, victim, 10, sibling, dependents)
    (lab.work / "rude").touch()
    evict_again_and_again(lab, victim, 10, sibling, dependents)

    (lab.work / "done").touch()
    lab.wait_for_state(victim, "COMPLETED", seconds=30)
    lab.wait_for_state(sibling, "RUNNING", seconds=30)
    assert lab.restarts(victim) == 20
    runs = re.findall(r"^run ?(\d*)$", lab.output(victim), re.M)
    assert [int(run or 0) for run in runs] == list(range(21))
    for kind, dependent in zip(("afterok", "afterany"), dependents):
        lab.wait_for_state(dependent, "COMPLETED", seconds=30)
    assert lab.state(dependents[2]) != "COMPLETED"

    def accounted():
        text = lab.run("sacct", "-n", "-P", "-X", "-D", "-j", victim, "-o", "JobID,State").stdout
        states = [line.split("|")[1].split()[0] for line in text.splitlines()]
        return states if len(states) == 21 and states.count("COMPLETED") >= 1 else None

    lab.wait_for("each run is in the accounting", accounted)
    assert preemptions(lab)["wasted"] == 0


@evictions
def test_a_victim_is_eligible_at_once_but_not_before_its_claimant_has_started(teams):
    lab = teams
    victim = expired(lab)
    claimant = claim(lab, script="sleep 1200")
    warned(lab, victim, claimant)
    lab.wait_for("the victim is requeued", lambda: lab.restarts(victim) == 1, seconds=30)
    lab.wait_for_state(claimant, "RUNNING", seconds=30)
    lab.wait_for("the victim is eligible", lambda: "BeginTime" not in lab.job(victim)["Reason"])
    assert outcome(lab, victim, claimant)["outcome"] == "started"
    assert lab.state(victim) == "PENDING"  # not a moment before, and its place is kept
    assert lab.queue("-t", "PD") == [str(victim)]


@evictions
def test_a_time_limit_that_backfill_lowered_is_asked_for_again_in_full(teams):
    lab = teams
    lab.run("scontrol", "create", "reservation", "reservationname=works", "starttime=now+40minutes",
            "duration=60", "nodes=g1", "users=root")
    victim = expired(lab, "-N1", "--gpus=8", "--resumable", "--time=2:00:00", "--time-min=10")
    assert lab.job(victim)["TimeLimit"] < "00:41:00"
    lab.run("scontrol", "delete", "reservation=works")
    claimant = claim(lab, "-N1", "--gpus=8", "--time=30")
    lab.wait_for_state(claimant, "RUNNING", seconds=30)
    lab.wait_for_state(victim, "PENDING", "RUNNING")
    lab.wait_for("the whole time is asked for",
                 lambda: lab.job(victim)["TimeLimit"] == "02:00:00")
    assert lab.restarts(victim) == 1


@evictions
def test_a_run_that_gave_nodes_back_asks_for_all_of_them_again(teams):
    lab = teams
    lab.run("scancel", lab.other)
    victim = expired(lab, "-N2", "--gpus-per-node=8", "--resumable")
    lab.run("scontrol", "update", f"jobid={victim}", "numnodes=1", user="man")
    lab.wait_for("it holds one node", lambda: lab.job(victim)["NumNodes"] == "1")
    blocker = lab.sbatch("-N1", "--gpus=8", "--min-runtime=8h", script=LONG, user="man")
    lab.wait_for_state(blocker, "RUNNING")
    claimant = claim(lab)
    lab.wait_for_state(claimant, "COMPLETED", seconds=30)
    lab.wait_for("the victim is eligible", lambda: "BeginTime" not in lab.job(victim)["Reason"])
    assert lab.state(victim) == "PENDING"  # one free node does not do
    lab.run("scancel", blocker)
    lab.wait_for_state(victim, "RUNNING", seconds=30)
    assert lab.job(victim)["NumNodes"] == "2"


@evictions
def test_a_program_in_the_batch_script_hears_nothing_until_the_end_unless_it_asks(teams):
    """A signal to a script without steps would end python at once: at the warning only those hear
    it that asked for one by --signal=B:."""
    lab = teams
    script = ("trap 'echo term $EPOCHSECONDS' TERM; trap 'echo usr1 $EPOCHSECONDS' USR1\n"
              "while true; do sleep 5 & wait $!; done")
    for options, word, at_once in ((("--open-mode=append",), "term", False),
                                   (("--open-mode=append", "--signal=B:USR1"), "usr1", True)):
        victim = expired(lab, "-N1", "--gpus=8", "--resumable", *options, script=script)
        claimant = claim(lab)
        record = warned(lab, victim, claimant)
        lab.wait_for_state(claimant, "RUNNING", "COMPLETED", seconds=60)
        heard = re.findall(r"^(\w+) (\d+)$", lab.output(victim), re.M)
        assert heard and heard[0][0] == word, lab.output(victim)
        after = int(heard[0][1]) - record["warned_at"]
        assert (after < 30) if at_once else (after >= 60), heard
        lab.run("scancel", "--signal=KILL", "--full", victim)
        lab.run("scancel", victim)
        lab.wait_for_state(victim, "CANCELLED", seconds=30)


@evictions
def test_steps_are_told_at_the_warning(teams):
    lab = teams
    script = ("srun bash -c 'trap \"echo step \\$EPOCHSECONDS; exit 0\" TERM; sleep 360000 & wait'"
              "\nsleep 360000")
    victim = expired(lab, "-N1", "--gpus=8", "--resumable", "--open-mode=append", script=script)
    lab.wait_for("its step runs", lambda: f"{victim}.0" in lab.run(
        "squeue", "-h", "-s", "-o", "%i").stdout.split())
    claimant = claim(lab)
    record = warned(lab, victim, claimant)
    lab.wait_for_state(claimant, "RUNNING", "COMPLETED", seconds=30)
    told = int(re.search(r"^step (\d+)$", lab.output(victim), re.M)[1])
    assert told - record["warned_at"] < 30
    assert f"makes room for job {claimant}" in lab.output(victim)


@evictions
@pytest.mark.parametrize("script", [
    DEAF, "(setsid bash -c \"trap '' TERM; sleep 400\" &) ; sleep 360000",
    "trap 'exit 0' TERM; sleep 360000 & wait", "trap 'exit 1' TERM; sleep 360000 & wait"],
    ids=["deaf", "forks-away", "exits-0", "exits-1"])
def test_however_a_victim_behaves_its_claimant_gets_the_room(teams, script):
    lab = teams
    victim = expired(lab, script=script)
    claimant = claim(lab)
    lab.wait_for_state(claimant, "RUNNING", "COMPLETED", seconds=30)
    assert lab.restarts(victim) == 1
    assert outcome(lab, victim, claimant)["outcome"] == "started"
    lab.wait_for_state(victim, "RUNNING", seconds=30)
    assert preemptions(lab)["wasted"] == 0


@evictions
def test_a_gang_leaves_whole_though_one_of_its_nodes_is_deaf(teams):
    lab = teams
    lab.run("scancel", lab.other)
    script = ("srun bash -c '[ $SLURM_NODEID = 1 ] && trap \"\" TERM; while true; do sleep 5; done'"
              "\nsleep 360000")
    victim = expired(lab, "-N2", "--gpus-per-node=8", "--resumable", script=script)
    claimant = claim(lab, "-N2", "--gpus=16")
    lab.wait_for_state(claimant, "RUNNING", "COMPLETED", seconds=40)
    assert lab.restarts(victim) == 1
    assert outcome(lab, victim, claimant)["outcome"] == "started"


@evictions
@pytest.mark.parametrize("command", ["srun", "salloc"])
def test_a_session_is_warned_quietly_and_ends_with_a_notice(teams, command):
    """No signal until one minute before the end of the grace: a notebook would die of it."""
    lab = teams
    program = "trap 'echo term $EPOCHSECONDS' TERM; while true; do sleep 5 & wait $!; done"
    words = ["bash", "-c", program] if command == "srun" else ["srun", "bash", "-c", program]
    session = lab.start(command, "-N1", "--gpus=8", "--min-runtime=1m", *words, user="man")
    victim = int(lab.wait_for("the session runs", lambda: [
        job for job in lab.run("squeue", "-h", "-t", "R", "-u", "man", "-o", "%i").stdout.split()
        if job != str(lab.other)])[0])
    claimant = claim(lab)
    lab.wait_for_state(claimant, "RUNNING", "COMPLETED", seconds=60)
    record = records(lab, victim)[0]
    assert lab.state(victim) == "PREEMPTED"
    out, err = session.communicate(timeout=30)
    heard = [int(at) - record["warned_at"] for at in re.findall(r"^term (\d+)$", out, re.M)]
    assert heard and 60 <= heard[0] < 120, (heard, out, err)
    assert 120 <= record["gone_at"] - record["warned_at"]
    assert f"makes room for job {claimant}" in err
    assert "ends within a minute" in err


@evictions
def test_health_shows_how_exactly_graces_end(teams):
    lab = teams
    victim = expired(lab)
    claimant = claim(lab)
    lab.wait_for_state(claimant, "RUNNING", "COMPLETED", seconds=30)
    outcome(lab, victim, claimant)
    health = lab.json("srank", "--health", "--json")
    delays = health["grace_delays_milliseconds"]
    assert delays and min(delays) >= 0
    assert health["grace_delay_p50_milliseconds"] in delays
    assert health["grace_delay_p99_milliseconds"] == max(delays)
    assert re.search(r"grace\s+ended late by p50 \d+ ms, p99 \d+ ms, of the last \d+",
                     lab.run("srank", "--health").stdout)
