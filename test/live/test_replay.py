# SPDX-License-Identifier: GPL-2.0-or-later
"""sreplay snapshot on real daemons, and what the simulator makes of it.

In compressed time: a minute of the cluster is a second of ours.
"""

import json

import pytest

from test_main_path import LONG, SPEED, TREE, fill, fund

SETTINGS = [
    "tranche:DefaultMinRuntime=0",
    "tranche:GraceTime=60",
    "tranche:ExpressFraction=0",
    "tranche:MaxProtectedFraction=1",
]
contracts = pytest.mark.lab(faketime=SPEED, settings=SETTINGS)


@pytest.fixture
def two_teams(lab):
    fund(lab, TREE)
    return lab


def started_at(lab, job):
    """When the last run of a job began, epoch seconds."""
    return int(lab.run("date", "-d", lab.job(job)["StartTime"], "+%s").stdout)


@contracts
def test_the_simulator_foresees_what_happens_then(two_teams):
    lab = two_teams
    running = fill(lab, lab.nodes, "--min-runtime=1h", "--resumable", "--time=10:00:00",
                   user="games")
    free = lab.sbatch("-N1", "--gpus=1", script=LONG, user="mail")
    waiting = lab.sbatch("-N1", "--gpus=8", "--min-runtime=1h", "--time=10:00:00", script=LONG,
                         user="man")
    held = lab.sbatch("-N1", "--gpus=8", "--hold", script=LONG, user="man")
    lab.wait_for("the engine has seen all", lambda: {free, waiting, held} <= {
        job["job_id"] for job in lab.json("srank", "--json")["jobs"]})
    said = lab.run("sreplay", "snapshot", "now.json").stdout
    assert said == f"now.json: 3 waiting and {lab.nodes} running jobs\n"

    snapshot = json.loads((lab.work / "now.json").read_text())
    jobs = {job["id"]: job for job in snapshot["jobs"]}
    assert {job["state"] for job in jobs.values()} == {"pending", "running"}
    for job in running:
        assert jobs[str(job)]["kind"] == "allocated"
        assert 0 < jobs[str(job)]["contract_left"] <= 3600
        assert sum(share["gpus"] for share in jobs[str(job)]["where"]) == 8
    assert jobs[str(waiting)]["min_runtime"] == 3600
    assert [node["gpus"] for node in snapshot["nodes"]] == [lab.gpus] * lab.nodes
    assert snapshot["settings"]["GraceTime"] == "60"

    answer = lab.json("sreplay", "run", "--snapshot=now.json", "--until=4h", "--trace=trace.txt",
                      "--json")
    assert answer["jobs"] == lab.nodes + 2  # the held one is left out
    assert answer["preemptions"]["total"] == 1
    trace = [json.loads(line) for line in (lab.work / "trace.txt").read_text().splitlines()]
    taken = [entry["job"] for entry in trace if entry["do"] == "preempt"]
    foreseen = [entry["at"] for entry in trace
                if entry["do"] == "start" and entry["job"] == str(waiting)]
    assert len(foreseen) == 1
    assert not [entry for entry in trace if entry["do"] == "start" and entry["job"] == str(free)]

    lab.wait_for_state(waiting, "RUNNING", seconds=120)
    assert abs(started_at(lab, waiting) - foreseen[0]) <= 3 * 60
    assert [str(job) for job in running if lab.restarts(job)] == taken


@pytest.mark.lab(faketime=SPEED, settings=[*SETTINGS, "PrivateData=jobs"])
def test_who_may_not_see_all_jobs_gets_no_snapshot(two_teams):
    lab = two_teams
    refused = lab.run("sreplay", "snapshot", "/dev/null", user="games", check=False)
    assert refused.returncode == 1
    assert "PrivateData" in refused.stderr
    lab.run("sreplay", "snapshot", "/dev/null")
