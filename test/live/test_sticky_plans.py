# SPDX-License-Identifier: GPL-2.0-or-later
"""Freed nodes belong to the claimant until it starts, whatever else happens meanwhile.

In compressed time: a minute of the cluster is a second of ours. Nothing may be wasted but where a
test forces it.
"""

import re
import tempfile
from pathlib import Path

import pytest

from test_evictions import DEAF, expired, outcome, preemptions, records, warned
from test_main_path import LONG, fund

SPEED = 60
FLAGS = Path(tempfile.mkdtemp(prefix="tranche-epilog."))
FLAGS.chmod(0o755)
# A minute of the cluster on nodes that have a flag; a script of slurmd's lives in real time.
EPILOG = FLAGS / "epilog"
EPILOG.write_text(f"#!/bin/sh\n[ -e {FLAGS}/slow ] && sleep 1\nexit 0\n")
EPILOG.chmod(0o755)
sticky = pytest.mark.lab(nodes=2, faketime=SPEED, settings=[
    "tranche:DefaultMinRuntime=0", "tranche:ExpressFraction=0", "tranche:MaxProtectedFraction=1",
    "tranche:GraceTime=60", "tranche:GraceTimeFree=60", "tranche:Reservations=0",
    "tranche:MaxAssemblies=0", f"Epilog={EPILOG}", "KillWait=30",
    "PartitionName=other Nodes=ALL MaxTime=INFINITE State=UP"])
TREE = {"A": {"shares": 20, "users": "games"}, "B": {"shares": 1, "users": "man"},
        "Z": {"shares": 0, "users": "news"}}


@pytest.fixture
def teams(lab):
    fund(lab, TREE)
    (FLAGS / "slow").unlink(missing_ok=True)
    lab.before = preemptions(lab)
    return lab


def counted(lab):
    """What was counted since the test began."""
    now = preemptions(lab)
    return {key: now[key] - lab.before[key] for key in now}


def two_victims(lab, *scripts):
    """Two runs of B past their contracts, each on a node of its own."""
    return [expired(lab, "-N1", "--gpus=8", "--resumable", script=script)
            for script in (scripts or (LONG, LONG))]


def gang(lab, *options, user="games"):
    """A claimant of both nodes."""
    return lab.sbatch("-N2", "--gpus-per-node=8", "--min-runtime=2m", *options, script=LONG,
                      user=user)


def starts_unharmed(lab, claimant, victims, seconds=40):
    lab.wait_for_state(claimant, "RUNNING", seconds=seconds)
    for victim in victims:
        assert outcome(lab, victim, claimant)["outcome"] == "started"
        assert lab.restarts(victim) == 1
    assert counted(lab)["wasted"] == counted(lab)["overtaken"] == 0


@sticky
def test_nobody_else_gets_the_node_that_is_free_first(teams):
    """One node is free at once, the other only after grace, KillWait and epilog. Meanwhile come
    salloc, a job of another partition, a better-ranked one of the claimant's own budget, an array
    and free work."""
    lab = teams
    # Sleeps until it is told; leaves at once.
    polite = "srun bash -c 'trap \"exit 0\" TERM; sleep 360000 & wait'\nexit 0"
    victims = two_victims(lab, polite, DEAF)
    (FLAGS / "slow").touch()
    claimant = gang(lab)
    for victim in victims:
        warned(lab, victim, claimant)
    session = lab.start("salloc", "-N1", "--gpus=1", "--min-runtime=2m", "sleep", "1",
                        user="games")
    others = [
        lab.sbatch("-p", "other", "-N1", "--gpus=8", "--min-runtime=2m", user="games"),
        lab.sbatch("-N1", "--gpus=8", "--min-runtime=2m", "--team-priority=urgent", user="games"),
        lab.sbatch("--array=0-9", "-N1", "--gpus=1", "--min-runtime=2m", user="games"),
        lab.sbatch("-N1", "--gpus=1", "--resumable", user="news")]
    lab.wait_for("the polite one has gone", lambda: lab.restarts(victims[0]) == 1, seconds=20)
    assert lab.state(claimant) == "PENDING"
    starts_unharmed(lab, claimant, victims)
    assert session.poll() is None
    for job in others[:2] + others[3:]:
        assert lab.state(job) == "PENDING"
    assert lab.run("squeue", "-h", "-t", "R", "-o", "%i").stdout.split() == [str(claimant)]
    session.kill()
    session.communicate()


@sticky
def test_two_claimants_never_share_a_victim(teams):
    lab = teams
    victims = two_victims(lab)
    claimants = [lab.sbatch("-N1", f"--gpus={gpus}", "--min-runtime=2m", script=LONG, user="games")
                 for gpus in (4, 8, 8)]
    lab.wait_for("two of them run", lambda: sum(
        lab.state(job) == "RUNNING" for job in claimants) == 2, seconds=40)
    pairs = {record["victim_job_id"]: record["claimant_job_id"]
             for victim in victims for record in records(lab, victim)}
    assert len(pairs) == 2 and len(set(pairs.values())) == 2, pairs
    assert counted(lab)["wasted"] == 0


@sticky
def test_a_task_of_an_array_gets_the_room_that_was_made_for_it(teams):
    lab = teams
    victims = two_victims(lab)
    array = lab.sbatch("--array=0-5", "-N1", "--gpus=8", "--min-runtime=2m", script=LONG,
                       user="games")
    lab.wait_for("both nodes are the array's", lambda: lab.run(
        "squeue", "-h", "-t", "R", "-o", "%F").stdout.split() == [str(array)] * 2, seconds=60)
    found = [records(lab, victim)[0]["outcome"] for victim in victims]
    lab.wait_for("the outcomes are known", lambda: [
        records(lab, victim)[0]["outcome"] for victim in victims] == ["started"] * 2)
    assert counted(lab)["wasted"] == counted(lab)["overtaken"] == 0, found


@sticky
def test_a_claimant_is_not_stopped_by_a_job_that_blocks_its_partition(teams):
    """A better-ranked job of the claimant's partition waits for more than there is."""
    lab = teams
    blocker = expired(lab, "-N1", "--gpus=8", "--resumable")
    held_up = lab.sbatch("-N1", "--gpus=8", "--min-runtime=8h", user="man", script=LONG)
    lab.wait_for_state(held_up, "RUNNING")
    waits = gang(lab)  # B's other run is under contract
    lab.wait_for("it is ranked", lambda: lab.queue("-t", "PD") == [str(waits)])
    claimant = lab.sbatch("-N1", "--gpus=8", "--min-runtime=2m", script=LONG, user="games")
    starts_unharmed(lab, claimant, [blocker])
    assert lab.state(waits) == "PENDING"


@sticky
@pytest.mark.parametrize("change", ["cancel", "hold", "shrink"])
def test_warnings_are_taken_back_when_the_claimant_does_not_want_the_room(teams, change):
    lab = teams
    victims = two_victims(lab)
    limits = [lab.job(victim)["EndTime"] for victim in victims]
    claimant = gang(lab)
    for victim in victims:
        warned(lab, victim, claimant)
    if change == "cancel":
        lab.run("scancel", claimant)
    elif change == "hold":
        lab.run("scontrol", "hold", claimant)
    else:
        lab.run("scontrol", "update", f"jobid={claimant}", "numnodes=1")
    first = lab.wait_for("a warning is taken back", lambda: [
        victim for victim in victims if records(lab, victim)[0]["outcome"] == "taken-back"])
    if change == "shrink":
        lab.wait_for_state(claimant, "RUNNING", seconds=40)
        assert sorted(lab.restarts(victim) for victim in victims) == [0, 1]
    else:
        assert len(first) >= 1
        began = lab.now()
        lab.wait_for("the grace would be over", lambda: lab.now() > began + 120, seconds=10)
        assert [lab.restarts(victim) for victim in victims] == [0, 0]
        assert [lab.job(victim)["EndTime"] for victim in victims] == limits
    assert counted(lab)["wasted"] == 0


@sticky
@pytest.mark.parametrize("how", ["restart", "reconfigure"])
def test_a_restart_or_a_reconfiguration_in_the_grace_changes_nothing(teams, how):
    lab = teams
    victims = two_victims(lab)
    small = [lab.sbatch("-N1", "--gpus=1", "--resumable", user="man", script=LONG)
             for _ in range(3)]
    claimant = gang(lab)
    at = [warned(lab, victim, claimant)["warned_at"] for victim in victims]
    if how == "restart":
        lab.restart_slurmctld()
        lab.before = {key: 0 for key in lab.before}
    else:
        lab.run("scontrol", "reconfigure")
    starts_unharmed(lab, claimant, victims, seconds=60)
    for victim, warned_at in zip(victims, at):
        assert records(lab, victim)[0]["warned_at"] == warned_at
        assert records(lab, victim)[0]["gone_at"] >= warned_at + 60
    assert all(lab.state(job) == "PENDING" for job in small)


@sticky
def test_a_restart_after_a_polite_exit_does_not_forget_that_it_comes_back(teams):
    lab = teams
    victim = expired(lab, "-N1", "--gpus=8", "--resumable", "--signal=B:USR1",
                     script="trap 'exit 0' USR1; sleep 360000 & wait")
    lab.sbatch("-N1", "--gpus=8", "--min-runtime=8h", user="man", script=LONG)
    claimant = lab.sbatch("-N1", "--gpus=8", "--min-runtime=2m", script=LONG, user="games")
    lab.wait_for_state(claimant, "RUNNING", seconds=40)
    lab.restart_slurmctld()
    lab.before = {key: 0 for key in lab.before}
    lab.wait_for_state(victim, "PENDING")
    lab.run("scancel", claimant)
    lab.wait_for_state(victim, "RUNNING", seconds=40)
    assert lab.restarts(victim) == 1


@sticky
def test_a_heterogeneous_claimant_gets_room_for_all_its_components_at_once(teams):
    """Stock Slurm starts the first component, finds the second one waiting, and puts the job off."""
    lab = teams
    victims = two_victims(lab, LONG, DEAF)
    claimant = lab.sbatch("-N1", "--gpus=8", "--min-runtime=2m", ":", "-N1", "--gpus=4",
                          script=LONG, user="games")
    lab.wait_for("both components run", lambda: lab.run(
        "squeue", "-h", "-t", "R", "-u", "games", "-o", "%i").stdout.split() == [
            f"{claimant}+0", f"{claimant}+1"], seconds=60)
    for victim in victims:
        assert lab.restarts(victim) == 1
        assert outcome(lab, victim, claimant)["outcome"] == "started"
    assert lab.restarts(claimant) == 0
    assert counted(lab)["wasted"] == counted(lab)["overtaken"] == 0


@sticky
def test_a_claimant_that_leaves_after_its_victims_is_counted(teams):
    lab = teams
    (FLAGS / "slow").touch()
    victim = expired(lab)
    lab.sbatch("-N1", "--gpus=8", "--min-runtime=8h", user="man", script=LONG)
    claimant = lab.sbatch("-N1", "--gpus=8", "--min-runtime=2m", script=LONG, user="games")
    lab.wait_for("the victim is told to go", lambda: lab.restarts(victim) == 1, seconds=20)
    lab.run("scancel", claimant)
    lab.wait_for("it is counted", lambda: counted(lab)["claimant_left"] == 1)
    assert records(lab, victim)[0]["outcome"] == "claimant-left"
    assert counted(lab)["wasted"] == 0
    lab.wait_for_state(victim, "RUNNING", seconds=30)


@sticky
def test_a_waste_is_seen_and_counted(teams):
    """Forced: the claimant's room is empty, and a reservation that came meanwhile keeps it out."""
    lab = teams
    victim = expired(lab)
    lab.sbatch("-N1", "--gpus=8", "--min-runtime=8h", user="man", script=LONG)
    claimant = lab.sbatch("-N1", "--gpus=8", "--min-runtime=2m", script=LONG, user="games")
    warned(lab, victim, claimant)
    lab.run("scontrol", "create", "reservation", "reservationname=works", "starttime=now",
            "duration=600", f"nodes={lab.job(victim)['NodeList']}", "users=root",
            "flags=maint,ignore_jobs")
    try:
        lab.wait_for("it is counted", lambda: counted(lab)["wasted"] == 1, seconds=60)
        assert records(lab, victim)[0]["outcome"] == "wasted"
        assert re.search(r"wasted [1-9]", lab.run("srank", "--health", check=False).stdout)
    finally:
        lab.run("scontrol", "delete", "reservation=works")


@sticky
def test_most_victims_left_for_a_claimant_that_started(teams):
    """Over all that was done on this cluster: one waste, which was forced."""
    lab = teams
    outcomes = [record["outcome"] for record in lab.json(
        "sbudget", "--json", "show", "preemption")["preemptions"]]
    assert outcomes.count("wasted") == 1
    assert outcomes.count("overtaken") == 0
    left = [one for one in outcomes if one not in ("taken-back", "claimant-left")]
    assert outcomes.count("started") / len(left) > 0.75, outcomes
