# SPDX-License-Identifier: GPL-2.0-or-later
"""Large jobs on real daemons: assemblies, who may enter their nodes, what a restart remembers.

Compressed time: a minute of the cluster is a second of ours.
"""

import json
import time

import pytest

from test_main_path import fund

SPEED = 60
NODES = 16
SETTINGS = [
    "tranche:DefaultMinRuntime=0",
    "tranche:GraceTime=5",
    "tranche:GraceTimeFree=5",
    "tranche:AssemblyPause=0",
    "tranche:MaxProtectedFraction=1",
]
large = pytest.mark.lab(nodes=NODES, faketime=SPEED, settings=SETTINGS)

# games' jobs of half the cluster; man holds it; news has no shares and runs free.
TREE = {
    "A": {"shares": 3, "users": "games"},
    "B": {"shares": 1, "users": "man"},
    "Z": {"shares": 0, "users": "news"},
}
LONG = "sleep 360000"
REAL_DELAY = 120  # two of our seconds: slurmctld's own cycles, and a machine that others use


@pytest.fixture
def cluster(lab):
    fund(lab, TREE)
    return lab


def running(lab):
    """The runs as the engine knows them, by job id."""
    answer = lab.run("srank", "--running", "--json", check=False)
    if answer.returncode:
        return None
    return {job["job_id"]: job for job in json.loads(answer.stdout)["jobs"]}


def assembly_of(lab, job):
    return lab.json("srank", "--why", job, "--json").get("assembly", {})


def granted(lab, job):
    return lab.wait_for(f"job {job} is granted an assembly",
                        lambda: "granted_at" in assembly_of(lab, job) and assembly_of(lab, job))


def fill_with_contracts(lab, first, step, ends_itself):
    """A protected job on each node, contracts ending one after the other; the first so many end
    by themselves."""
    jobs = []
    for i in range(NODES):
        minutes = first + step * i
        script = f"sleep {minutes * 60}" if i < ends_itself else LONG
        jobs.append(lab.sbatch("-N1", "--gpus=8", f"--min-runtime={minutes}m", "--resumable",
                               script=script, user="man"))
    lab.wait_for("all nodes are under contract",
                 lambda: sum(job["kind"] == "allocated" for job in (running(lab) or {}).values())
                 == NODES)
    return jobs


def is_held_back(lab, job):
    """Whether its begin time was put off."""
    eligible = lab.job(job)["EligibleTime"]
    return eligible != "Unknown" and int(
        lab.run("date", "-d", eligible, "+%s").stdout) > lab.now()


@large
def test_a_job_of_half_a_full_cluster_starts_at_the_date_and_nobody_stays_past_it(cluster):
    longest = (10 + 2 * (NODES - 1)) * 60
    fill_with_contracts(cluster, 10, 2, ends_itself=6)
    # Free work for whatever is free, in pieces of a node and of one GPU.
    cluster.sbatch("--array=1-30", "-N1", "--gpus=8", "--resumable", script=LONG, user="news")
    cluster.sbatch("--array=1-100", "--gpus=1", "--resumable", script=LONG, user="news")
    big = cluster.sbatch("-N8", "--gpus-per-node=8", "--min-runtime=30m", script=LONG,
                         user="games")
    assembly = granted(cluster, big)
    nodes, date = set(assembly["nodes"]), assembly["date_at"]
    assert len(nodes) == 8
    assert date - assembly["granted_at"] <= longest
    queue = {job["job_id"]: job for job in cluster.json("srank", "--json")["jobs"]}
    assert queue[big]["wait_reason"] == "assembling"
    assert queue[big]["next_change_at"] == date
    # These would stay past the date.
    too_long = [cluster.sbatch("-N1", "--gpus=8", "--min-runtime=4h", "--resumable", script=LONG,
                               user=user) for user in ("man", "games")]
    entered, used, samples, debug = {}, 0, 0, 0
    while cluster.state(big) != "RUNNING":
        assert cluster.now() < date + 5 + 60 + REAL_DELAY, cluster.overview()
        if debug < 6 and samples % 12 == 6:
            # A debug job, by the lane; its minimum of 5 minutes fits, or does not fit any more.
            cluster.sbatch("-N1", "--gpus=8", "--min-runtime=5m", script="sleep 300", user="man")
            debug += 1
        runs = running(cluster)
        if cluster.now() < date:
            used += sum(job["gpus"] for job in runs.values())
            samples += 1
        for job in runs.values():
            if job["started_at"] > assembly["granted_at"] and nodes & set(job["nodes"]):
                entered[job["job_id"]] = job
        time.sleep(0.1)
    started = assembly_of(cluster, big)["started_at"]
    assert started - assembly["turn_at"] <= longest + 5 + 60
    assert started <= date + 5 + 60 + REAL_DELAY
    assert set(running(cluster)[big]["nodes"]) == nodes
    entered.pop(big, None)
    assert entered
    for job in entered.values():
        assert job["kind"] == "free" or job["protected_until"] <= date, job
    assert any(job["kind"] == "free" for job in entered.values())
    assert used / samples / (NODES * 8) >= 0.98
    for job in too_long:
        assert not nodes & set(running(cluster).get(job, {"nodes": []})["nodes"])
    records = cluster.json("sbudget", "--json", "show", "preemption")["preemptions"]
    for record in records:
        if record["claimant_job_id"] == big:
            assert record["warned_at"] >= record.get("contract_ended_at", 0)
    assert cluster.json("srank", "--health", "--json")["faults"] == 0


def stays_out_over_a_reconfigure(lab, job):
    """slurmctld rebuilds its bitmaps some milliseconds before it tells the plugin: a pass that
    waits for the same lock may fall into them (doc/design/live.md), but not time after time."""
    for _ in range(3):
        lab.run("scontrol", "reconfigure")
        time.sleep(1)
        if lab.state(job) == "PENDING":
            return
        lab.run("scontrol", "requeue", job)
        lab.wait_for_state(job, "PENDING")
        time.sleep(1)
        assert lab.state(job) == "PENDING"
    pytest.fail(f"job {job} started at each of three reconfigurations\n{lab.overview()}")


@large
def test_a_restart_and_a_drained_node_change_neither_turn_nor_who_may_enter(cluster):
    jobs = fill_with_contracts(cluster, 20, 1, ends_itself=0)
    big = cluster.sbatch("-N8", "--gpus-per-node=8", "--min-runtime=30m", script=LONG,
                         user="games")
    before = granted(cluster, big)
    # One node becomes free: free work may have it, who would stay may not, whatever happens.
    first = next(job for job in jobs if set(running(cluster)[job]["nodes"]) & set(before["nodes"]))
    stays = cluster.sbatch("-N1", "--gpus=8", "--min-runtime=4h", "--resumable", script=LONG,
                           user="games")
    wide = cluster.sbatch("-N12", "--gpus-per-node=8", "--min-runtime=4h", script=LONG, user="man")
    # Only eight nodes would be left to it: it is held, and its own begin time is known.
    cluster.wait_for("the wide job is held",
                     lambda: is_held_back(cluster, wide))
    cluster.run("scancel", first)
    time.sleep(1)
    assert cluster.state(stays) == "PENDING"
    stays_out_over_a_reconfigure(cluster, stays)
    cluster.restart_slurmctld()
    cluster.wait_for("the engine answers",
                     lambda: cluster.run("srank", "--health", check=False).returncode == 0)
    time.sleep(1)
    assert cluster.state(stays) == "PENDING"
    after = assembly_of(cluster, big)
    assert (after["turn_at"], after["granted_at"]) == (before["turn_at"], before["granted_at"])
    shown = cluster.json("srank", "--why", wide, "--json")
    assert shown["pending"]["wait_reason"] != "begin-time"
    assert "BadConstraints" not in cluster.run("squeue", "-h", "-o", "%i %r").stdout
    cluster.run("scontrol", "update", f"JobId={stays}", "ExcNodeList=")
    time.sleep(0.5)
    assert cluster.state(stays) == "PENDING"

    gone = sorted(after["nodes"])[-1]
    cluster.run("scontrol", "update", f"NodeName={gone}", "State=DRAIN", "Reason=test")
    try:
        other = cluster.wait_for(
            "another node takes its place",
            lambda: gone not in assembly_of(cluster, big)["nodes"] and assembly_of(cluster, big))
        assert len(other["nodes"]) == 8
        assert other["turn_at"] == before["turn_at"]
        left = other["date_at"] - cluster.now()
        cluster.wait_for_state(big, "RUNNING", seconds=left / SPEED + 10)
        assert set(running(cluster)[big]["nodes"]) == set(other["nodes"])
        assert assembly_of(cluster, big)["started_at"] <= other["date_at"] + 65 + REAL_DELAY
    finally:
        cluster.run("scontrol", "update", f"NodeName={gone}", "State=RESUME")
    # The rule is gone with the assembly: the wide job waits for room like any other.
    cluster.wait_for("the wide job's own begin time is back",
                     lambda: cluster.job(wide)["Reason"] != "BeginTime")
    assert cluster.json("srank", "--health", "--json")["faults"] == 0


@large
def test_a_job_that_would_have_no_node_left_starts_when_the_nodes_are_free_again(cluster):
    """slurmctld calls a job impossible, for ever, that is kept off all nodes it could use."""
    fill_with_contracts(cluster, 60, 0, ends_itself=0)
    big = cluster.sbatch(f"-N{NODES}", "--gpus-per-node=8", "--min-runtime=30m", script=LONG,
                         user="games")
    granted(cluster, big)
    jobs = [
        cluster.sbatch("-N1", "--gpus=8", "--min-runtime=4h", "--resumable", script=LONG,
                       user="games"),
        cluster.sbatch("-N2", "--gpus-per-node=8", "--min-runtime=4h", "--resumable",
                       "--nodelist=g[15-16]", script=LONG, user="games"),
        cluster.sbatch("--array=1-3", "-N1", "--gpus=8", "--min-runtime=4h", "--resumable",
                       "--exclude=g3", script=LONG, user="games"),
    ]
    cluster.wait_for("they are held", lambda: all(is_held_back(cluster, job) for job in jobs))
    cluster.run("scancel", "--state=RUNNING")
    # Room, and the large job has it at once.
    cluster.wait_for_state(big, "RUNNING")
    cluster.run("scancel", big)
    for job in jobs:
        cluster.wait_for(f"job {job} starts", lambda: "RUNNING" in cluster.run(
            "squeue", "-h", "-j", job, "-o", "%T").stdout)
    shown = cluster.job(jobs[2])
    assert shown["ExcNodeList"] == "g3"
