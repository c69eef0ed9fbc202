# SPDX-License-Identifier: GPL-2.0-or-later
"""The baseline fairtree against slurmctld with priority/multifactor: the same start order.

All cases run at once, each in a partition of its own with its own part of the account tree; Fair
Tree orders the users of one part by what was used in it alone.
"""

import itertools
import json
import os
import re
import shlex
import subprocess
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

from fair_tree_cases import CASES, CELL, FIRST_SUBMISSION, PERIOD

SPEED = 60
TOP = Path(__file__).resolve().parents[2]
SREPLAY = Path(os.environ.get("TRANCHE_BUILD", TOP / "build")) / "sreplay"
GPUS = 8


def nodes_of(case):
    before = sum(other.nodes for other in CASES[:CASES.index(case)])
    return f"g[{before + 1}-{before + case.nodes}]"


# Usage counts GPUs, as the baseline's does. bf_job_part_count_reserve=1 is EASY: without it Slurm
# reserves for every waiting job.
SETTINGS = [
    "PriorityWeightFairshare=10000000",
    "DebugFlags=Priority",
    "SchedulerParameters=bf_continue,bf_interval=4,batch_sched_delay=1,default_queue_depth=1000,"
    "bf_job_part_count_reserve=1",
    *(f"PartitionName={case.name} Nodes={nodes_of(case)} MaxTime=INFINITE "
      'TRESBillingWeights="CPU=0,GRES/gpu=1"' for case in CASES),
]


def fair_shares_computed(lab):
    """The instants at which slurmctld computed fair shares."""
    return [datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()
            for text in re.findall(r"^\[(\S+)\] .*Fair Tree fairshare algorithm", lab.log(), re.M)]


def add_accounts(lab):
    """From a file: one transaction instead of one for each association."""
    lines = ["Cluster - 'lab':Fairshare=1", "Parent - 'root'"]
    lines += [f"Account - '{case.name}':Fairshare=1" for case in CASES]
    for case in CASES:
        children = {case.name: []}
        for name, (parent, shares) in case.accounts.items():
            children[parent or case.name].append(f"Account - '{name}':Fairshare={shares}")
            children[name] = []
        for user, account in case.users:
            children[account].append(f"User - '{user}':Fairshare=1")
        for parent, entries in children.items():
            lines += [f"Parent - '{parent}'", *entries]
    (lab.work / "accounts").write_text("\n".join(lines) + "\n")
    lab.run("sacctmgr", "-i", "load", "accounts")


def submit_all(lab, zero):
    """Returns the job ids of each case in the order of its jobs. All at once: real seconds are
    minutes of the cluster."""
    wanted = [(case, job) for case in CASES for job in case.jobs()]
    wanted.sort(key=lambda each: not each[1].until)  # what holds the nodes comes first
    script = ["set -e", "export SBATCH_OUTPUT=/dev/null"]
    for case, job in wanted:
        cell = job.until or f"((EPOCHSECONDS - {zero}) / {CELL} + {job.cells})"
        end = f"{zero} + {CELL} * {cell} + {job.ends_in}"
        program = f"#!/bin/bash\nexec sleep $(({end} - EPOCHSECONDS))\n"
        options = ["sbatch", "--parsable", f"--uid={job.user}", "-A", job.account, "-p",
                   case.name, "-N", job.nodes, f"--gpus-per-node={job.gpus // job.nodes}", "-t",
                   job.limit_seconds // 60]
        script.append(f"{shlex.join(map(str, options))} <<<{shlex.quote(program)}")
    answer = lab.run("bash", "-c", "\n".join(script), timeout=60, check=False)
    assert answer.returncode == 0, answer.stderr
    ids = answer.stdout.split()
    assert len(ids) == len(wanted)
    return {case.name: [int(job) for job, (of, _) in zip(ids, wanted) if of is case]
            for case in CASES}


def started(lab):
    """(instant, job id) of each start, in slurmctld's order."""
    found = re.findall(r"^\[(\S+)\] (?:sched: Allocate JobId=(\d+)|"
                       r"sched/backfill: _start_job: Started JobId=(\d+))", lab.log(), re.M)
    return [(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp(), int(a or b))
            for text, a, b in found]


def simulated_order(case, folder):
    """The jobs of a case by their numbers, in the order in which the simulator starts them: a list
    for each instant. How long one runs follows from its start: replayed until both agree."""
    zero = 10 * PERIOD
    jobs, budgets, events, trace = (folder / f"{case.name}.{name}" for name in (
        "csv", "budgets", "events", "trace"))
    budgets.write_text(json.dumps(case.budgets()))
    # The replay begins at its first event: fair shares are computed then, and every PERIOD.
    events.write_text(json.dumps([{"at": zero, "do": "undrain", "node": "n1"}]))
    runtimes = [CELL] * len(case.jobs())
    for _ in range(len(runtimes)):
        lines = ["job_id,submit,account,user,gpus,nodes,runtime,time_limit"]
        for number, (job, runtime) in enumerate(zip(case.jobs(), runtimes)):
            lines.append(f"{number},{zero + FIRST_SUBMISSION + number},{job.account},{job.user},"
                         f"{job.gpus},{job.nodes},{runtime},{job.limit_seconds}")
        jobs.write_text("\n".join(lines) + "\n")
        subprocess.run(
            [SREPLAY, "run", f"--jobs={jobs}", f"--cluster={case.nodes}x{GPUS}",
             f"--budgets={budgets}", f"--events={events}", f"--trace={trace}",
             "--policy=fairtree", "--json"], check=True, stdout=subprocess.DEVNULL)
        starts = {int(entry["job"]): entry["at"] - zero
                  for entry in map(json.loads, trace.read_text().splitlines())
                  if entry["do"] == "start"}
        wanted = [job.ends_at(starts[number]) - starts[number]
                  for number, job in enumerate(case.jobs())]
        if wanted == runtimes:
            return [[number for number, at in starts.items() if at == instant]
                    for instant in dict.fromkeys(starts.values())]
        runtimes = wanted
    pytest.fail(f"{case.name}: starts and runtimes do not agree")


@pytest.mark.lab(nodes=sum(case.nodes for case in CASES), gpus=GPUS, stock=True, slurmdbd=True, faketime=SPEED,
                 settings=SETTINGS, fresh=True)
def test_fifty_jobs_start_in_the_order_of_the_real_fair_tree(lab, tmp_path):
    add_accounts(lab)
    # New associations count from the next computation on.
    seen = len(fair_shares_computed(lab))
    lab.wait_for("fair shares are computed", lambda: len(fair_shares_computed(lab)) > seen,
                 every=0.02)
    zero = round(fair_shares_computed(lab)[-1])
    ids = submit_all(lab, zero)
    assert lab.now() < zero + 8 * CELL, "submitted too slowly: what holds the nodes has ended"
    everybody = sum(len(jobs) for jobs in ids.values())
    lab.wait_for("all have started", lambda: len(started(lab)) == everybody, seconds=150, every=1)
    live = started(lab)
    differing = {}
    for case in CASES:
        number = {job: i for i, job in enumerate(ids[case.name])}
        real = iter([number[job] for _, job in live if job in number])
        foreseen = [sorted(together) for together in simulated_order(case, tmp_path)]
        # When the nodes of a gang become free, backfill may see one of them before the other, and
        # what starts there goes before the next in rank: no order among what starts at once.
        came = [sorted(itertools.islice(real, len(together))) for together in foreseen]
        assert sum(map(len, foreseen)) == len(case.past) + 50
        if came != foreseen:
            differing[case.name] = next(pair for pair in zip(came, foreseen) if pair[0] != pair[1])
    # Where different sizes fill the gaps of one node, slurmctld's backfill now and then starts two jobs
    # the other way round; why is not known (doc/design/simulator.md).
    assert set(differing) <= {"sizes"}, differing
