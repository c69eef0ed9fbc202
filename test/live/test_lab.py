# SPDX-License-Identifier: GPL-2.0-or-later
"""The private cluster itself, with plain Slurm: what the other live tests lean on."""

import os
from pathlib import Path

import pytest

from conftest import TOP, USERS, Lab, labs  # noqa: F401

stock = pytest.mark.lab(stock=True)


@stock
def test_all_nodes_are_idle_after_the_start(lab):
    assert lab.run("sinfo", "-h", "-N", "-o", "%N %T").stdout.split("\n")[:-1] == [
        "g1 idle", "g2 idle", "g3 idle", "g4 idle"]


@stock
def test_a_job_of_each_test_user_runs_as_that_user(lab):
    jobs = {user: lab.sbatch("--gpus=1", script="id -un", user=user) for user in USERS}
    for user, job in jobs.items():
        lab.wait_for_state(job, "COMPLETED")
        assert lab.output(job) == user + "\n"


@stock
def test_gpus_are_counted_and_a_job_gets_its_own(lab):
    first = lab.sbatch("-N1", "--gpus=5", "-w", "g1", script="echo $CUDA_VISIBLE_DEVICES; sleep 60")
    second = lab.sbatch("-N1", "--gpus=3", "-w", "g1", script="echo $CUDA_VISIBLE_DEVICES; sleep 60")
    third = lab.sbatch("-N1", "--gpus=1", "-w", "g1")
    lab.wait_for_state(first, "RUNNING")
    lab.wait_for_state(second, "RUNNING")

    def devices(job):
        return lab.output(job).strip().split(",")

    lab.wait_for("both say their GPUs", lambda: devices(first)[0] and devices(second)[0])
    assert sorted(devices(first) + devices(second)) == list("01234567")
    assert lab.state(third) == "PENDING"


@stock
def test_a_cluster_that_stops_leaves_no_process_and_no_job_behind(labs, tmp_path):
    labs.stop()
    for part in (tmp_path, *tmp_path.parents[:2]):
        part.chmod(0o755)
    cluster = Lab(tmp_path / "lab", stock=True, nodes=2)
    job = cluster.sbatch("--gpus=8", script="trap '' TERM; sleep 1000 & sleep 1000")
    cluster.wait_for_state(job, "RUNNING")
    root = str(cluster.root)
    assert [text for text in living() if root in text] != []
    cluster.stop()
    assert [text for text in living() if root in text] == []


@stock
def test_a_killed_slurmctld_comes_back_with_its_jobs(lab):
    job = lab.sbatch("--gpus=1")
    lab.wait_for_state(job, "RUNNING")
    lab.kill_daemon("slurmctld")
    lab.start_daemon("slurmctld")
    lab.wait_for_state(job, "RUNNING")
    assert lab.restarts(job) == 0


@stock
def test_two_clusters_run_side_by_side(lab, tmp_path):
    for part in (tmp_path, *tmp_path.parents[:2]):
        part.chmod(0o755)
    other = Lab(tmp_path / "other", stock=True, nodes=1, gpus=16)
    try:
        job = other.sbatch("--gpus=16", "-J", "only-in-the-other", script="true")
        other.wait_for_state(job, "COMPLETED")
        assert lab.run("squeue", "-h", "-t", "all", "-n", "only-in-the-other").stdout == ""
        assert len(lab.run("sinfo", "-h", "-N").stdout.splitlines()) == 4
        assert len(other.run("sinfo", "-h", "-N").stdout.splitlines()) == 1
    finally:
        other.stop()


@pytest.mark.lab(stock=True, settings=["PartitionName=high Nodes=ALL PriorityTier=9",
                                       "SchedulerParameters+=sched_interval=7"])
def test_settings_reach_slurm_conf(lab):
    assert "PriorityTier=9" in lab.run("scontrol", "show", "partition", "high").stdout
    parameters = lab.run("scontrol", "show", "config").stdout
    assert "bf_continue" in parameters and "sched_interval=7" in parameters


@pytest.mark.lab(stock=True, slurmdbd=True, nodes=9, gpus=12)
def test_with_slurmdbd_gpus_are_tres_and_a_job_needs_an_association(lab):
    assert lab.submit("--gpus=1", user="games", check=False).returncode != 0
    lab.run("sacctmgr", "-i", "add", "account", "proja")
    lab.run("sacctmgr", "-i", "add", "user", "games", "account=proja")
    job = lab.sbatch("-N1", "--gpus=12", script="true", user="games")
    lab.wait_for_state(job, "COMPLETED")

    def accounted():
        text = lab.run("sacct", "-n", "-X", "-j", job, "--format=account%20,alloctres%60").stdout
        return text if "gres/gpu" in text else ""  # the row is there before what it got

    text = lab.wait_for("the job's GPUs are in the accounting", accounted)
    assert text.split()[0] == "proja" and "gres/gpu=12" in text


@pytest.mark.lab(stock=True, faketime=60)
def test_under_the_fast_clock_hours_pass_in_seconds_and_all_users_share_it(lab):
    before = os.times().elapsed
    job = lab.sbatch("--gpus=8", script="date +%s; sleep 600; date +%s", user="games")
    lab.wait_for_state(job, "COMPLETED", seconds=40)
    assert os.times().elapsed - before < 30
    begin, end = map(int, lab.output(job).split())
    assert 600 <= end - begin <= 660
    assert abs(end - lab.now()) < 1200


def living():
    """Command lines, working folders and open files of all processes that are not zombies."""
    texts = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            for link in (entry / "cwd", *(entry / "fd").iterdir()):
                text += " " + os.readlink(link)
            texts.append(f"{entry.name} {text}")
        except OSError:
            pass
    return texts
