# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said about a slurm.conf, and what Slurm's own commands show of the queue."""

import re

import pytest

PARAMETERS = "bf_interval=1,batch_sched_delay=1,default_queue_depth=1000"


@pytest.mark.lab(settings=[
    "JobFileAppend=0", "KillWait=60", "CompleteWait=2", "PreemptMode=CANCEL",
    f"SchedulerParameters={PARAMETERS},bf_min_prio_reserve=7,preempt_strict_order"])
def test_settings_that_break_us_are_named_at_the_start_with_the_line_to_write(lab):
    lines = re.findall(r"error: tranche: (.*); write (.*)", lab.log())
    instead = {line: what for what, line in lines}
    for line, word in {
            "JobFileAppend=1": "JobFileAppend=0",
            "KillWait=5": "KillWait=60",
            "CompleteWait=0": "CompleteWait=2",
            "PreemptMode=REQUEUE": "CANCEL",
            "SchedulerParameters=bf_min_prio_reserve=4000000000": "bf_min_prio_reserve=7",
            "SchedulerParameters=bf_continue": "no bf_continue",
            "SchedulerParameters without preempt_strict_order": "preempt_strict_order"}.items():
        assert word in instead.get(line, ""), lines


@pytest.mark.lab(settings=["tranche:DefaultMinRuntime=0",
                           "PartitionName=second Nodes=ALL MaxTime=INFINITE State=UP"])
class TestQueue:
    def test_the_shipped_settings_have_nothing_to_complain_about(self, lab):
        assert re.findall(r"error: tranche: .*", lab.log()) == []

    def test_sprio_prints_the_priority_of_each_partition(self, lab):
        for _ in range(4):
            lab.sbatch("--gpus=8")
        job = lab.sbatch("-p", "main,second", "--gpus=8")
        other = lab.sbatch("-p", "main", "--gpus=8", user="games")
        # The first number of a job is the last of its band, its rank's comes a moment later.
        lab.wait_for("both are ranked", lambda: lab.queue("-t", "PD")[-1:] == [str(other)] and all(
            int(lab.job(one)["Priority"]) % 1000000000 > 1 for one in (job, other)))
        priority = lab.job(job)["Priority"]
        shown = lab.run("sprio", "-h", "-o", "%i|%r|%Y|%u").stdout.split()
        assert sorted(shown) == sorted([
            f"{job}|main|{priority}|root", f"{job}|second|{priority}|root",
            f"{other}|main|{lab.job(other)['Priority']}|games"])
        only = lab.run("sprio", "-h", "-u", "games", "-o", "%i").stdout.split()
        assert only == [str(other)]

    def test_an_administrators_priority_and_a_hold_stay(self, lab):
        for _ in range(4):
            lab.sbatch("--gpus=8")
        held = lab.sbatch("-H", "--gpus=8")
        fixed = lab.sbatch("--gpus=8")
        lab.run("scontrol", "update", f"JobId={fixed}", "Priority=123456")
        free = lab.sbatch("--gpus=8")
        lab.wait_for("it is ranked", lambda: int(lab.job(free)["Priority"]) > 1000000000)
        lab.run("scontrol", "reconfigure")
        assert lab.job(held)["Priority"] == "0"
        assert lab.job(fixed)["Priority"] == "123456"
        lab.run("scontrol", "release", held)
        lab.wait_for("it is ranked", lambda: int(lab.job(held)["Priority"]) > 1000000000)
