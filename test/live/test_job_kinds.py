# SPDX-License-Identifier: GPL-2.0-or-later
"""Every kind of job: what it is charged for, and whether it goes or claims as it should."""


import pytest

from test_evictions import expired, outcome, preemptions, records
from test_main_path import LONG, fund

SPEED = 60
kinds = pytest.mark.lab(nodes=2, faketime=SPEED, settings=[
    "tranche:DefaultMinRuntime=0", "tranche:ExpressFraction=0", "tranche:MaxProtectedFraction=1",
    "tranche:GraceTime=60", "tranche:GraceTimeInteractive=60", "tranche:GraceTimeFree=10",
    "tranche:Reservations=0", "tranche:MaxAssemblies=0", "AuthInfo+=cred_expire=30",
    "PartitionName=other Nodes=ALL MaxTime=INFINITE State=UP"])
TREE = {"A": {"shares": 20, "users": "games"}, "B": {"shares": 1, "users": "man"}}


@pytest.fixture
def teams(lab):
    fund(lab, TREE)
    return lab


def runs(lab):
    """What srank shows of the running jobs, by job id; of all components and tasks."""
    return {job["job_id"]: job for job in lab.json("srank", "--running", "--json")["jobs"]}


def shown(lab, job):
    return lab.wait_for(f"srank shows run {job}", lambda: runs(lab).get(job))


def claim(lab, *options, script=LONG):
    return lab.sbatch(*(options or ("-N1", "--gpus=8")), "--min-runtime=2m", script=script,
                      user="games")


def hold(lab, node):
    """The other node is B's, under contract."""
    job = lab.sbatch("-w", node, "-N1", "--gpus=8", "--min-runtime=8h", script=LONG, user="man")
    lab.wait_for_state(job, "RUNNING")
    return job


@kinds
@pytest.mark.parametrize("options, gpus, nodes", [
    (["--gpus=3"], 3, 1), (["-n2", "--gpus-per-task=2"], 4, 1), (["-N2", "--gpus-per-node=2"], 4, 2),
    (["--gres=gpu:5"], 5, 1), (["--exclusive"], 8, 1), (["--exclusive", "--gpus=1"], 8, 1),
    (["-p", "other,main", "--gpus=2"], 2, 1)], ids=lambda value: "_".join(
        word.strip("-") for word in value) if isinstance(value, list) else None)
def test_what_a_job_really_holds_is_charged_and_yields(teams, options, gpus, nodes):
    lab = teams
    victim = expired(lab, *options, "--resumable")
    run = shown(lab, victim)
    assert run["gpus"] == gpus and run["kind"] == "allocated", run
    claimant = claim(lab, "-N2", "--gpus-per-node=8")
    lab.wait_for_state(claimant, "RUNNING", seconds=40)
    assert lab.restarts(victim) == 1
    assert outcome(lab, victim, claimant)["outcome"] == "started"


@kinds
@pytest.mark.parametrize("options", [
    ["--gpus=8"], ["--exclusive"], ["-n4", "--gpus-per-task=2"], ["-N1", "--gres=gpu:8"],
    ["-p", "other,main", "-N1", "--gpus=8"]], ids=lambda value: "_".join(
        word.strip("-") for word in value))
def test_every_way_to_ask_for_gpus_claims(teams, options):
    lab = teams
    held = hold(lab, "g2")
    victim = expired(lab)
    claimant = claim(lab, *options)
    lab.wait_for_state(claimant, "RUNNING", seconds=40)
    assert outcome(lab, victim, claimant)["outcome"] == "started"
    assert lab.restarts(held) == 0
    assert shown(lab, claimant)["gpus"] == 8


@kinds
def test_tasks_of_an_array_and_components_leave_each_as_what_they_are(teams):
    """A task leaves alone, a heterogeneous job as a whole or, while one component is under contract,
    not at all."""
    lab = teams
    array = lab.sbatch("--array=0-1", "-N1", "--gpus=8", "--min-runtime=1m", "--resumable",
                       script=LONG, user="man")
    lab.wait_for("both tasks run", lambda: len(lab.run(
        "squeue", "-h", "-t", "R", "-o", "%i").stdout.split()) == 2)
    claimant = claim(lab)
    lab.wait_for_state(claimant, "RUNNING", seconds=40)
    lab.wait_for("one task waits again", lambda: lab.run(
        "squeue", "-h", "-r", "-t", "PD", "-o", "%F").stdout.split() == [str(array)])
    lab.run("scancel", array, claimant)
    lab.wait_for("nobody runs", lambda: not lab.run("squeue", "-h", "-o", "%i").stdout.split())

    het = lab.sbatch("-N1", "--gpus=8", "--min-runtime=1m", "--resumable", ":", "-N1", "--gpus=8",
                     script=LONG, user="man")
    lab.wait_for("both components run", lambda: len(lab.run(
        "squeue", "-h", "-t", "R", "-o", "%i").stdout.split()) == 2, seconds=30)
    claimant = claim(lab)
    lab.wait_for_state(claimant, "RUNNING", seconds=40)
    lab.wait_for("the whole job waits again", lambda: sorted(lab.run(
        "squeue", "-h", "-t", "PD", "-o", "%i").stdout.split()) == [f"{het}+0", f"{het}+1"])


@kinds
def test_a_job_without_gpus_is_free_and_nobody_leaves_for_it(teams):
    lab = teams
    victim = expired(lab, "-N1", "--gpus=8", "--exclusive", "--resumable")
    other = hold(lab, "g2")
    waits = lab.sbatch("-n32", "-N1", "--min-runtime=2m", script=LONG, user="games")
    lab.wait_for("it is ranked", lambda: str(waits) in lab.queue("-t", "PD"))
    began = lab.now()
    lab.wait_for("some cycles go by", lambda: lab.now() > began + 120)
    assert lab.state(waits) == "PENDING"
    assert not records(lab, victim) and not records(lab, other)
    lab.run("scancel", victim)
    lab.wait_for_state(waits, "RUNNING", seconds=30)
    assert shown(lab, waits)["kind"] == "free"


@kinds
def test_a_job_in_a_reservation_is_neither_robbed_of_it_nor_in_the_way(teams):
    lab = teams
    lab.run("scontrol", "create", "reservation", "reservationname=course", "starttime=now",
            "duration=600", "nodes=g2", "users=man")
    try:
        inside = expired(lab, "-N1", "--gpus=8", "--resumable", "--reservation=course")
        victim = expired(lab)
        claimants = [claim(lab), claim(lab)]
        lab.wait_for_state(claimants[0], "RUNNING", seconds=40)
        assert outcome(lab, victim, claimants[0])["outcome"] == "started"
        began = lab.now()
        lab.wait_for("some cycles go by", lambda: lab.now() > began + 120)
        # Its room is the reservation's: nobody else could start there.
        assert lab.state(inside) == "RUNNING" and lab.restarts(inside) == 0
        assert lab.state(claimants[1]) == "PENDING"
    finally:
        lab.run("scancel", "-R", "course", check=False)
        lab.run("scancel", "-u", "man", check=False)
        lab.wait_for("nobody is inside", lambda: not lab.run(
            "squeue", "-h", "-R", "course", "-o", "%i").stdout.split())
        lab.run("scontrol", "delete", "reservation=course")


@kinds
def test_a_suspended_run_keeps_its_contract_and_then_yields(teams):
    lab = teams
    victim = lab.sbatch("-N1", "--gpus=8", "--resumable", "--min-runtime=3m", script=LONG,
                        user="man")
    lab.wait_for_state(victim, "RUNNING")
    hold(lab, "g2")
    lab.run("scontrol", "suspend", victim)
    lab.wait_for_state(victim, "SUSPENDED")
    began = lab.now()
    claimant = claim(lab)
    lab.wait_for("its minimum would be over", lambda: lab.now() > began + 300, seconds=20)
    assert lab.state(victim) == "SUSPENDED" and not records(lab, victim)
    lab.run("scontrol", "resume", victim)
    lab.wait_for_state(claimant, "RUNNING", seconds=40)
    assert lab.restarts(victim) == 1


@kinds
def test_a_run_that_gave_nodes_back_is_charged_for_the_rest(teams):
    lab = teams
    victim = lab.sbatch("-N2", "--gpus-per-node=8", "--min-runtime=1m", "--resumable",
                        script=LONG, user="man")
    assert shown(lab, victim)["gpus"] == 16
    lab.run("scontrol", "update", f"jobid={victim}", "numnodes=1", user="man")
    lab.wait_for("it holds eight", lambda: runs(lab)[victim]["gpus"] == 8)


@kinds
def test_a_job_that_says_its_terms_by_the_environment_is_as_good(teams):
    """No SPANK plugin on the submit host: TRANCHE_REQUEST_* say the same."""
    lab = teams
    environment = {"TRANCHE_REQUEST_MIN_RUNTIME": "1m", "TRANCHE_REQUEST_RESUMABLE": "yes"}
    answer = lab.run("setpriv", "--reuid=man", "--regid=12", "--clear-groups", "sbatch",
                     "--parsable", "-N1", "--gpus=8", stdin="#!/bin/bash\n" + LONG + "\n",
                     environment=environment)
    victim = int(answer.stdout.split(";")[0])
    run = shown(lab, victim)
    assert run["kind"] == "allocated" and run["gpus"] == 8
    hold(lab, "g2")
    claimant = claim(lab)
    lab.wait_for_state(claimant, "RUNNING", seconds=40)
    assert lab.restarts(victim) == 1


@kinds
def test_a_job_that_says_nothing_runs_free_and_goes_first(teams):
    lab = teams
    paid = expired(lab)
    free = lab.sbatch("-N1", "--gpus=8", script=LONG, user="man")
    lab.wait_for_state(free, "RUNNING")
    assert shown(lab, free)["kind"] == "free"
    claimant = claim(lab)
    lab.wait_for_state(claimant, "RUNNING", seconds=40)
    assert lab.state(free) == "PREEMPTED"
    assert lab.restarts(paid) == 0


@kinds
def test_nobody_was_evicted_in_vain(teams):
    assert preemptions(teams)["wasted"] == 0
