# SPDX-License-Identifier: GPL-2.0-or-later
"""What single settings change on real daemons: each test turns one, and back. In most of them a
minute of the cluster is a second of ours."""

import contextlib
import json
import re

import pytest

SPEED = 60
TREE = {
    "A": {"shares": 9, "users": "games"},
    "B": {"shares": 1, "users": "man,news"},
}
LONG = "sleep 360000"
ALL = "Nodes=ALL MaxTime=INFINITE State=UP"
knobs = pytest.mark.lab(faketime=SPEED, settings=[
    "tranche:DefaultMinRuntime=0", "tranche:GraceTime=5", "tranche:GraceTimeFree=5",
    "tranche:ExpressFraction=0", "tranche:MaxProtectedFraction=1",
    f"PartitionName=spared PreemptMode=OFF {ALL}", f"PartitionName=outside {ALL}"])


@pytest.fixture
def teams(lab):
    lab.wait_for("the engine answers",
                 lambda: lab.run("srank", "--health", check=False).returncode == 0)
    if '"B"' not in lab.run("sbudget", "--json", "show", "budget").stdout:
        for name, keys in TREE.items():
            lab.run("sbudget", "-i", "add", "budget", name,
                    *(f"{key}={value}" for key, value in keys.items()))
    lab.wait_for("submissions know the tree", lambda: "protected for" in lab.submit(
        "--gpus=1", "--min-runtime=1h", "--test-only", user="games", check=False).stderr)
    return lab


@contextlib.contextmanager
def setting(lab, *lines):
    """With these lines in tranche.conf instead of those of the same keys."""
    config = lab.root / "etc" / "tranche.conf"
    good = config.read_text()
    keys = tuple(line.split("=")[0] + "=" for line in lines)
    kept = [line for line in good.splitlines() if not line.startswith(keys)]
    before = health(lab)["settings"]
    usual = health(lab)["complaints"]  # bf_interval is long in compressed time
    config.write_text("\n".join([*kept, *lines]) + "\n")
    lab.run("scontrol", "reconfigure")
    try:
        yield
    finally:
        config.write_text(good)
        lab.run("scontrol", "reconfigure")
        lab.wait_for("all is as it was", lambda: health(lab).get("complaints") == usual and
                     all(health(lab)["settings"][key[:-1]] == before[key[:-1]] for key in keys))


def health(lab):
    answer = lab.run("srank", "--health", "--json", check=False)
    return json.loads(answer.stdout) if answer.stdout else {}


def in_force(lab, key, value):
    lab.wait_for(f"{key}={value} is in force",
                 lambda: health(lab).get("settings", {}).get(key) == value)


def complaint(lab, part):
    return lab.wait_for(f"a complaint with {part}", lambda: [
        line for line in health(lab).get("complaints", []) if part in line])[0]


def fill(lab, count, *options, user):
    jobs = [lab.sbatch("-N1", "--gpus=8", *options, script=LONG, user=user) for _ in range(count)]
    for job in jobs:
        lab.wait_for_state(job, "RUNNING")
    return jobs


def seconds_pass(lab, seconds):
    lab.wait_for("some time is over", lambda start=lab.now(): lab.now() > start + seconds)


def claimant_of(lab, *options, user="games"):
    return lab.sbatch("-N1", "--gpus=8", "--min-runtime=10m", *options, script=LONG, user=user)


def why(lab, job):
    return lab.run("srank", "--why", job, check=False).stdout


@knobs
def test_jobs_outside_partitions_are_neither_taken_nor_take(teams):
    lab = teams
    with setting(lab, "Partitions=main,spared"):
        in_force(lab, "Partitions", "main,spared")
        assert re.search(r"^setting +Partitions=main,spared \(not set by default\): The partitions "
                         r"whose jobs have budgets and contracts\.$",
                         lab.run("srank", "--health", check=False).stdout, re.M)
        outside = fill(lab, 4, "-p", "outside", user="man")
        claimant = claimant_of(lab)
        seconds_pass(lab, 400)
        assert lab.state(claimant) == "PENDING"
        assert "outside Partitions=" in why(lab, claimant)
        lab.run("scancel", outside[0])
        lab.wait_for_state(claimant, "RUNNING")
        taker = lab.sbatch("-p", "outside", "-N1", "--gpus=8", "--min-runtime=10m", user="games")
        seconds_pass(lab, 300)
        assert lab.state(taker) == "PENDING"
    # All partitions have GPUs, so without the setting the same runs are free ones; what a run is
    # was decided at its start.
    lab.run("scancel", *outside[1:], taker)
    fill(lab, 3, "-p", "outside", user="man")
    second = claimant_of(lab)
    lab.wait_for_state(second, "RUNNING", seconds=30)


@knobs
def test_a_partition_with_preempt_mode_off_is_left_alone_and_nothing_is_tried(teams):
    lab = teams
    spared = fill(lab, 4, "-p", "spared", user="man")
    before = lab.log().count("no plan for job")
    claimant = claimant_of(lab)
    seconds_pass(lab, 900)
    assert lab.state(claimant) == "PENDING"
    assert all(lab.state(job) == "RUNNING" and lab.restarts(job) == 0 for job in spared)
    assert lab.log().count("no plan for job") == before
    assert "its partition has PreemptMode=OFF" in why(lab, claimant)
    assert "Nobody may take its place" in why(lab, spared[0])
    # Others on the same nodes are taken.
    lab.run("scancel", spared[0])
    lab.wait_for_state(claimant, "RUNNING")
    lab.run("scancel", spared[1])
    free = fill(lab, 1, user="man")[0]
    second = claimant_of(lab)
    lab.wait_for_state(second, "RUNNING", seconds=30)
    assert lab.state(free) != "RUNNING"


@knobs
def test_preemptions_of_the_last_hour_are_counted_after_a_restart_too(teams):
    lab = teams
    fill(lab, 4, user="man")
    # So many as there were in the last hour, and one more.
    recent = [row for row in lab.json("sbudget", "--json", "show", "preemption")["preemptions"]
              if row["warned_at"] > lab.now() - 3600]
    limit = len(recent) + 1
    with setting(lab, f"MaxPreemptionsPerHour={limit}"):
        in_force(lab, "MaxPreemptionsPerHour", str(limit))
        claimants = [claimant_of(lab), claimant_of(lab)]
        lab.wait_for("one starts", lambda: [
            job for job in claimants if lab.state(job) == "RUNNING"], seconds=30)
        waits = lab.wait_for("the other is told", lambda: [
            job for job in claimants if "MaxPreemptionsPerHour is reached" in why(lab, job)])[0]
        lab.restart_slurmctld()
        lab.wait_for("the engine answers", lambda: health(lab).get("settings"))
        seconds_pass(lab, 600)
        assert "MaxPreemptionsPerHour is reached" in why(lab, waits)
        assert lab.state(waits) == "PENDING"
        assert health(lab)["preemptions"]["total"] == 0  # since this start
    lab.wait_for_state(waits, "RUNNING", seconds=30)


@knobs
def test_within_a_budget_only_the_setting_lets_urgent_jobs_take(teams):
    lab = teams
    victims = fill(lab, 4, "--min-runtime=1m", "--team-priority=low", "--resumable", user="man")
    urgent = claimant_of(lab, "--team-priority=urgent", user="news")
    seconds_pass(lab, 600)
    assert lab.state(urgent) == "PENDING"
    assert "PreemptWithinBudget" in why(lab, urgent)
    with setting(lab, "PreemptWithinBudget=priority"):
        lab.wait_for_state(urgent, "RUNNING", seconds=30)
        record = lab.json("sbudget", "--json", "show", "preemption")["preemptions"][0]
        assert record["victim_job_id"] in victims and record["reason"] == "team-priority"


@knobs
def test_a_rehearsal_by_reconfigure_spares_everybody_at_once(teams):
    lab = teams
    with setting(lab, "DryRun=yes"):
        assert "nobody is preempted from now on" in complaint(lab, "DryRun=yes")
        fill(lab, 4, user="man")
        claimant = claimant_of(lab)
        seconds_pass(lab, 300)
        assert lab.state(claimant) == "PENDING"
        assert int(lab.job(claimant)["Priority"]) >= 2000000000  # still ranked by the budgets
    lab.wait_for_state(claimant, "RUNNING", seconds=30)


@knobs
def test_settings_that_cannot_be_are_named_at_reconfigure(teams):
    lab = teams
    with setting(lab, "Partitions=main,nosuch"):
        text = complaint(lab, "nosuch")
        assert "there is no such partition" in text and "main" in text
        assert text in lab.log()
    with setting(lab, "DatabasePath=/nosuch/usage.db"):
        text = complaint(lab, "DatabasePath=/nosuch/usage.db takes effect at the next restart")
        assert "No such file or directory" in text and text in lab.log()
        assert health(lab)["database_ok"]
        assert health(lab)["settings"]["DatabasePath"] == ""


@pytest.mark.lab(nodes=1, settings=["tranche:DefaultMinRuntime=0", "tranche:Partitions=main",
                                    "tranche:DatabasePath=/nosuch/usage.db"])
def test_a_start_with_a_database_that_cannot_be_says_so_and_goes_on_in_memory(lab):
    wrong = lab.wait_for("the engine answers", lambda: health(lab), seconds=40)
    assert wrong["database_ok"] is False and "/nosuch" in wrong["database"]
    assert "/nosuch" in lab.log().rsplit("the ledger cannot be used", 1)[1].splitlines()[0]
    assert lab.run("srank", "--health", check=False).returncode == 1
    job = lab.sbatch("-N1", "--gpus=8", script="sleep 60")
    lab.wait_for_state(job, "RUNNING")
    config = lab.root / "etc" / "tranche.conf"
    config.write_text(config.read_text().replace("DatabasePath=/nosuch/usage.db", ""))
    lab.restart_slurmctld()
    lab.wait_for("the ledger is there", lambda: health(lab).get("database_ok"), seconds=30)
    assert lab.state(job) == "RUNNING"
