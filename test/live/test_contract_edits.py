# SPDX-License-Identifier: GPL-2.0-or-later
"""Contracts that are changed after submission, on real daemons in compressed time."""

import os
import re

import pytest

SPEED = 60
contracts = pytest.mark.lab(faketime=SPEED, nodes=2, settings=[
    "tranche:DefaultMinRuntime=0",
    "tranche:GraceTime=300",
    "tranche:ExpressFraction=0",
])
TREE = {"A": "games", "B": "man"}
LONG = "sleep 360000"


@pytest.fixture
def teams(lab):
    lab.wait_for("the engine answers",
                 lambda: lab.run("srank", "--health", check=False).returncode == 0)
    for name, user in TREE.items():
        lab.run("sbudget", "-i", "add", "budget", name, "shares=1", f"users={user}", check=False)
    lab.wait_for("submissions know the tree", lambda: "protected for" in lab.submit(
        "--gpus=1", "--min-runtime=1h", "--test-only", user="games", check=False).stderr)
    return lab


def change(lab, job, *words, user="root", check=True):
    return lab.run("sbudget", "-i", "job", job, "set", *words, user=user, check=check)


def row(lab, job):
    """What srank knows of it, running or waiting."""
    for words in (("--running",), ()):
        for known in lab.json("srank", *words, "--json")["jobs"]:
            if job in (known["job_id"], known.get("array_job_id")):
                return known
    return None


def minimum(lab, job):
    known = row(lab, job)
    return known and known["min_runtime_seconds"]


@contracts
def test_the_owner_changes_a_waiting_job_and_the_change_survives_a_restart_without_our_database(teams):
    for _ in range(2):
        teams.sbatch("-N1", "--gpus=8", "--min-runtime=1h", script=LONG, user="games")
    job = teams.sbatch("-N1", "--gpus=8", "--min-runtime=1h", script=LONG, user="games")
    answer = change(teams, job, "min-runtime=2h", "team-priority=high", user="games")
    assert re.search(rf"{job}\s+min-runtime\s+01:00:00\s+02:00:00", answer.stdout)
    teams.wait_for("the queue has it", lambda: minimum(teams, job) == 7200)
    listed = teams.run("sbudget", "show", "contract", job).stdout
    assert re.search(rf"games\s+{job}\s+games\s+min-runtime\s+01:00:00\s+02:00:00", listed)
    teams.stop_daemon("slurmctld")
    for name in os.listdir(teams.root / "spool" / "slurmctld"):
        if name.startswith("usage.db"):
            os.unlink(teams.root / "spool" / "slurmctld" / name)
    teams.start_daemon("slurmctld")
    teams.wait_for("the engine answers again",
                   lambda: teams.run("srank", "--health", check=False).returncode == 0)
    teams.wait_for("the edit is still there", lambda: minimum(teams, job) == 7200)


@contracts
def test_who_may_not_and_what_cannot_be_is_refused_in_one_line(teams):
    job = teams.sbatch("-N1", "--gpus=8", "--min-runtime=1h", "--time=3:00:00", script=LONG,
                       user="games")
    teams.wait_for_state(job, "RUNNING")
    teams.wait_for("the engine has seen it run", lambda: minimum(teams, job) == 3600)
    for words, user, expected in (
            (["min-runtime=30m"], "man", "'games''s; its owner and operators may change it"),
            (["min-runtime=2h"], "games", "its owner can only give up protection"),
            (["min-runtime=9h"], "root", "at most 8 h here (MaxMinRuntime)"),
            (["min-runtime=4h"], "root", "above the job's time limit of 3 h")):
        answer = change(teams, job, *words, user=user, check=False)
        assert answer.returncode == 1
        assert expected in answer.stderr
        assert len(answer.stderr.splitlines()) == 1
    assert minimum(teams, job) == 3600
    asked = teams.run("sbudget", "job", job, "set", "min-runtime=30m", user="games", check=False)
    assert asked.returncode == 1 and "-i" in asked.stderr


@contracts
def test_an_edit_that_saves_a_warned_run_takes_its_warning_back(teams):
    victims = [teams.sbatch("-N1", "--gpus=8", "--min-runtime=10m", "--resumable", script=LONG,
                            user="man") for _ in range(2)]
    for victim in victims:
        teams.wait_for_state(victim, "RUNNING")
    claimant = teams.sbatch("-N1", "--gpus=8", "--min-runtime=5m", script=LONG, user="games")
    warned = []

    def is_warned():
        warned[:] = [job for job in victims if "PreemptTime" in teams.job(job)
                     and teams.job(job)["PreemptTime"] not in ("None", "Unknown")]
        return warned
    teams.wait_for("one is warned", is_warned, seconds=40)
    victim = warned[0]
    # The other's contract is over too: it would be taken instead, were it not longer as well.
    for job in victims:
        change(teams, job, "min-runtime=8h", "reason=demo tomorrow")
    assert teams.job(victim)["PreemptTime"] in ("None", "Unknown")
    # Past the grace, Slurm's own sweep and the patience with a claimant.
    until = teams.now() + 600
    teams.wait_for("the grace is long over", lambda: teams.now() > until, seconds=60)
    assert [teams.state(job) for job in victims] == ["RUNNING", "RUNNING"]
    assert [teams.restarts(job) for job in victims] == [0, 0]
    assert teams.state(claimant) == "PENDING"
    records = teams.json("sbudget", "--json", "show", "preemption")["preemptions"]
    assert {record["outcome"] for record in records
            if record["claimant_job_id"] == claimant} <= {"taken-back", "contract-changed"}
    # Given up again, the room goes to who waits for it.
    change(teams, victim, "min-runtime=10m", user="man")
    teams.wait_for_state(claimant, "RUNNING", seconds=60)
    assert teams.restarts(victim) == 1


@contracts
def test_one_task_of_an_array_and_then_all_that_wait_are_changed(teams):
    array = teams.sbatch("--array=0-4", "-N1", "--gpus=8", "--min-runtime=1h", script=LONG,
                         user="games")

    def tasks(state):
        return [int(line) for line in teams.run(
            "squeue", "-h", "-r", "-t", state, "-o", "%K").stdout.split()]
    teams.wait_for("two tasks run", lambda: len(tasks("R")) == 2)
    waits = max(tasks("PD"))
    change(teams, f"{array}_{waits}", "min-runtime=30m", user="games")

    def minima():
        out = {}
        for job in teams.json("srank", "--json")["jobs"]:
            if job.get("array_job_id") == array:
                out[job.get("array_task_id", "rest")] = job["min_runtime_seconds"]
        return out
    teams.wait_for("that task alone has it", lambda: minima().get(waits) == 1800
                   and set(minima().values()) == {1800, 3600})
    answer = change(teams, array, "min-runtime=2h", user="games")
    assert "give up protection" in answer.stderr, "the running ones stay as they are"
    teams.wait_for("all that wait have it", lambda: set(minima().values()) == {7200})
    # slurmctld's own array commands still know every task.
    teams.run("scancel", array)
    teams.wait_for("the array is gone", lambda: not teams.queue())


@contracts
def test_a_run_says_from_inside_that_it_has_written_a_checkpoint_and_is_taken_first(teams):
    script = 'sleep 1200; sbudget job $SLURM_JOB_ID checkpointed; sleep 360000'
    older = teams.sbatch("-N1", "--gpus=8", "--min-runtime=5m", "--resumable", script=script,
                         user="man")
    teams.wait_for_state(older, "RUNNING")
    newer = teams.sbatch("-N1", "--gpus=8", "--min-runtime=5m", "--resumable", script=LONG,
                         user="man")
    teams.wait_for("it was said", lambda: (row(teams, older) or {}).get("checkpointed_at", 0) > 0,
                   seconds=60)
    assert "Noted." in teams.output(older)
    claimant = teams.sbatch("-N1", "--gpus=8", "--min-runtime=5m", script=LONG, user="games")
    teams.wait_for_state(claimant, "RUNNING", seconds=60)
    assert teams.restarts(older) == 1
    assert teams.state(newer) == "RUNNING"
