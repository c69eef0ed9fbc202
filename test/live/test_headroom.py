# SPDX-License-Identifier: GPL-2.0-or-later
"""The headroom and --free-first on real daemons.

Twenty nodes in compressed time: one of them stays open to what is not under contract.
"""

import time

import pytest

from test_large_jobs import is_held_back, running
from test_main_path import fund

SPEED = 60
NODES = 20
SETTINGS = [
    "tranche:DefaultMinRuntime=0",
    "tranche:GraceTime=5",
    "tranche:GraceTimeFree=5",
    "tranche:MaxAssemblies=0",
    "tranche:Reservations=0",
]
headroom = pytest.mark.lab(nodes=NODES, faketime=SPEED, settings=SETTINGS)
TREE = {
    "A": {"shares": 1, "users": "games"},
    "B": {"shares": 1, "users": "man"},
    "Z": {"shares": 0, "users": "news"},
}
LONG = "sleep 360000"


@pytest.fixture
def cluster(lab):
    fund(lab, TREE)
    return lab


def kinds(lab):
    return {job: run["kind"] for job, run in (running(lab) or {}).items()}


def allocated_gpus(lab):
    return sum(run["gpus"] for run in (running(lab) or {}).values()
               if run["kind"] == "allocated" and not run["express"])


def wait_reason(lab, job):
    return lab.json("srank", "--why", job, "--json")["pending"]["wait_reason"]


def under_fresh_contracts(lab, count, *options):
    jobs = [lab.sbatch("-N1", "--gpus=8", "--min-runtime=8h", "--resumable", *options,
                       script=LONG, user="man") for _ in range(count)]
    lab.wait_for("they all run under contract", lambda: all(
        kinds(lab).get(job) == "allocated" for job in jobs))
    return jobs


@headroom
def test_the_open_node_takes_debug_jobs_and_what_can_resume_but_no_contract(cluster):
    protected = under_fresh_contracts(cluster, NODES - 1)
    final = cluster.sbatch("-N1", "--gpus=8", "--min-runtime=1h", script=LONG, user="games")
    cluster.wait_for("the headroom stops it", lambda: wait_reason(cluster, final) == "headroom")
    cluster.wait_for("it is held back", lambda: is_held_back(cluster, final))
    # A debug job has the open node, and it is under contract there.
    debug = cluster.sbatch("-N1", "--gpus=8", "--min-runtime=10m", script=LONG,
                           user="games")
    cluster.wait_for("it runs by the lane", lambda: (running(cluster) or {}).get(
        debug, {"express": False})["express"])
    cluster.run("scancel", debug)
    cluster.wait_for("it is over", lambda: cluster.state(debug) not in ("RUNNING", "COMPLETING"))
    assert cluster.state(final) == "PENDING"

    # One that can resume runs there free, whatever ranks before it.
    resumes = cluster.sbatch("-N1", "--gpus=8", "--min-runtime=1h", "--resumable", script=LONG,
                             user="games")
    cluster.wait_for_state(resumes, "RUNNING")
    cluster.wait_for("it runs free", lambda: kinds(cluster).get(resumes) == "free")
    assert running(cluster)[resumes]["wants_turn"]
    assert "free-headroom" in cluster.run("srank", "--running").stdout

    # No GPU idles while one that can resume waits.
    idle = cluster.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").stdout.split()
    assert idle == []
    # Contracts end: as many come under contract, one by its start, one in place.
    cluster.run("scancel", protected[0], protected[1])
    cluster.wait_for_state(final, "RUNNING")
    cluster.wait_for("its turn comes", lambda: kinds(cluster).get(resumes) == "allocated")
    assert allocated_gpus(cluster) == (NODES - 1) * 8
    assert cluster.restarts(resumes) == 0
    begun = running(cluster)[resumes]
    assert begun["protected_until"] - begun["started_at"] > 3600
    assert cluster.json("srank", "--health", "--json")["faults"] == 0


@headroom
def test_one_pass_starts_no_more_contracts_than_may_be(cluster):
    """All nodes come free at once, and more jobs than may be under contract wait for them."""
    under_fresh_contracts(cluster, NODES - 1)
    jobs = []
    for user in ("games", "man"):
        jobs += [cluster.sbatch("-N1", "--gpus=8", "--min-runtime=4h", script=LONG, user=user)
                 for _ in range(9)]
        jobs.append(cluster.sbatch("--array=1-8", "-N1", "--gpus=8", "--min-runtime=4h",
                                   script=LONG, user=user))
    cluster.wait_for("all are held back", lambda: all(is_held_back(cluster, job) for job in jobs))
    cluster.run("scancel", "--state=RUNNING", check=False)
    cluster.wait_for("what may start has started",
                     lambda: allocated_gpus(cluster) >= (NODES - 1) * 8)
    most, deadline = 0, time.monotonic() + 4
    while time.monotonic() < deadline:
        most = max(most, allocated_gpus(cluster))
        time.sleep(0.1)
    assert most == (NODES - 1) * 8


@headroom
def test_who_asks_for_it_runs_free_until_somebody_behind_would_take_its_gpus(cluster):
    under_fresh_contracts(cluster, NODES - 2)
    job = cluster.sbatch("-N1", "--gpus=8", "--min-runtime=1h", "--resumable", "--free-first",
                         script=LONG, user="games")
    cluster.wait_for("it runs free", lambda: kinds(cluster).get(job) == "free")
    assert running(cluster)[job]["free_first"]
    assert "free-first" in cluster.run("srank", "--running").stdout
    # The last node; a debug job is not taken by its own user's next.
    debug = cluster.sbatch("-N1", "--gpus=8", "--min-runtime=15m", script=LONG, user="games")
    cluster.wait_for_state(debug, "RUNNING")
    assert kinds(cluster)[job] == "free"
    behind = cluster.sbatch("-N1", "--gpus=8", "--min-runtime=1h", "--resumable", script=LONG,
                            user="games")
    cluster.wait_for("it turns", lambda: kinds(cluster).get(job) == "allocated")
    assert cluster.state(behind) == "PENDING"
    assert cluster.restarts(job) == 0
    turned = running(cluster)[job]
    assert turned["protected_until"] > turned["started_at"] + 3600
    assert cluster.json("srank", "--health", "--json")["faults"] == 0
