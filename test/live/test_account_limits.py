# SPDX-License-Identifier: GPL-2.0-or-later
"""Limits of accounts and QOS: what a priority plugin has to keep up for slurmctld."""

import re

import pytest

# Usage is charged once a minute of the cluster, which is a second of ours.
limits = pytest.mark.lab(slurmdbd=True, faketime=60, settings=[
    "tranche:DefaultMinRuntime=0", "PriorityCalcPeriod=1", "PriorityDecayHalfLife=0",
    "PriorityUsageResetPeriod=NONE"])


@pytest.fixture
def accounts(lab):
    if "physics" not in lab.run("sacctmgr", "-nP", "show", "account", "format=account").stdout:
        lab.run("sacctmgr", "-iQ", "add", "account", "physics", "GrpTRESRunMins=cpu=100000")
        lab.run("sacctmgr", "-iQ", "add", "user", "games", "account=physics")
        lab.run("sacctmgr", "-iQ", "add", "qos", "half", "UsageFactor=0.5",
                "GrpTRESRunMins=cpu=100000")
        lab.run("sacctmgr", "-iQ", "add", "qos", "door", "GrpTRESRunMins=cpu=100000")
        lab.run("sacctmgr", "-iQ", "modify", "user", "games", "set", "qos+=half")
    lab.run("scontrol", "update", "PartitionName=main", "QOS=door")
    lab.wait_for("slurmctld knows the user", lambda: "games" in lab.run(
        "scontrol", "-o", "show", "assoc_mgr", "flags=assoc").stdout)
    return lab


def used(lab, limit):
    """CPU minutes that count against `limit`, by the name of the account or QOS."""
    text = lab.run("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos").stdout
    found = {}
    for line in text.splitlines():
        name = re.search(r"QOS=(\w+)", line) or re.search(r"Account=(\w+)", line)
        minutes = re.search(limit + r"=(?:\S*,)?cpu=\w+\((\d+)\)", line)
        if name and minutes and ("UserName= " in line or line.startswith("QOS=")):
            found[name[1]] = int(minutes[1])
    return {name: found.get(name) for name in ("physics", "half", "door")}


def run_minutes(lab):
    return used(lab, "GrpTRESRunMins")


def submit(lab):
    job = lab.sbatch("-A", "physics", "-q", "half", "-n4", "-t", "100", user="games")
    lab.wait_for_state(job, "RUNNING")
    return job


@limits
def test_run_minutes_shrink_as_a_job_runs_and_are_gone_when_it_ended(accounts):
    job = submit(accounts)
    # 4 CPUs, 100 minutes, factor 0.5; the partition's QOS counts the same.
    whole = run_minutes(accounts)
    assert all(190 < minutes <= 200 for minutes in whole.values()), whole
    accounts.wait_for("ten minutes are taken away", lambda: all(
        minutes <= 185 for minutes in run_minutes(accounts).values()), seconds=30)
    accounts.run("scancel", job)
    accounts.wait_for("nothing is left", lambda: set(run_minutes(accounts).values()) == {0})


@limits
def test_what_was_used_counts_against_group_minutes(accounts):
    before = used(accounts, "GrpTRESMins")
    job = submit(accounts)
    # 2 CPU minutes in each minute.
    accounts.wait_for("ten minutes are charged", lambda: all(
        minutes >= before[name] + 20 for name, minutes in used(accounts, "GrpTRESMins").items()),
        seconds=30)
    accounts.run("scancel", job)
    accounts.wait_for_state(job, "CANCELLED", "GONE")
    assert len(set(used(accounts, "GrpTRESMins").values())) == 1


@limits
def test_a_restart_and_a_reconfiguration_leak_no_run_minutes(accounts):
    job = submit(accounts)
    accounts.wait_for("some minutes are taken away", lambda: run_minutes(accounts)["half"] <= 190,
                      seconds=30)
    accounts.restart_slurmctld()
    accounts.wait_for("the time before the restart is taken away again",
                      lambda: run_minutes(accounts)["half"] <= 190, seconds=10)
    before = run_minutes(accounts)["half"]
    accounts.run("scontrol", "reconfigure")
    accounts.wait_for("the same after a reconfiguration",
                      lambda: run_minutes(accounts)["half"] <= before, seconds=5)
    accounts.run("scancel", job)
    accounts.wait_for("nothing is left", lambda: {
        run_minutes(accounts)[name] for name in ("physics", "half")} == {0})


@limits
def test_sshare_prints_every_association(accounts):
    text = accounts.run("sshare", "-a", "-P", "-o", "Account,User,RawUsage,FairShare").stdout
    assert re.search(r"^ *physics\|games\|\d+\|\d\.\d+$", text, re.M), text
