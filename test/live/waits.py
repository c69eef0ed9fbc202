#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""How long claimants wait on a real cluster, in real time. Measures and asserts nothing.

  make campaign-waits [CAMPAIGN="contracts polite"], or: TRANCHE_BUILD=DIR python3 test/live/waits.py
  with any of: contracts express queue, and of express and queue: idle polite plain deaf

contracts: from the end of a victim's contract to the start of the job that waited for it.
express:   from `sbatch` typed to the first line of the script of a debug job, on a cluster full of
           runs past their contracts: victims that leave when told, plain programs in a batch script,
           and those that ignore every signal; idle: on an empty cluster, for comparison.
queue:     the same with 10 000 jobs waiting.
"""

import re
import statistics
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from conftest import Lab  # noqa: E402

NODES = 4
GRACE = 2
ROUNDS = 13  # of NODES preemptions each
DEBUG_JOBS = 20
KINDS = ["idle", "polite", "plain", "deaf"]
POLITE = "srun bash -c 'trap \"exit 0\" TERM; sleep 100000 & wait'\nexit 0"
PLAIN = "sleep 100000"
DEAF = "trap '' TERM; while true; do sleep 1; done"
SETTINGS = ["tranche:DefaultMinRuntime=0", f"tranche:GraceTime={GRACE}",
            "tranche:MaxProtectedFraction=1", "tranche:ExpressMinRuntime=1:00",
            "tranche:ExpressHoursPerUser=100", "MaxArraySize=1001", "MaxJobCount=50000",
            "JobFileAppend=1"]


def fund(lab):
    lab.wait_for("the engine answers",
                 lambda: lab.run("srank", "--health", check=False).returncode == 0)
    for name, shares, user in (("A", 1000, "games"), ("B", 1, "man")):
        lab.run("sbudget", "-i", "add", "budget", name, f"shares={shares}", f"users={user}")
    lab.wait_for("submissions know the tree", lambda: "protected for" in lab.submit(
        "--gpus=1", "--min-runtime=1h", "--test-only", user="games", check=False).stderr)


def running(lab, *options):
    return lab.run("squeue", "-h", "-t", "R", "-o", "%i", *options).stdout.split()


def starts(lab):
    """When each job was allocated last, epoch seconds with milliseconds."""
    found = {}
    for text, job in re.findall(
            r"^\[(\S+)\] (?:sched: Allocate|sched/backfill: _start_job: Started) JobId=(\d+) ",
            lab.log(), re.M):
        found[int(job)] = datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()
    return found


def row(name, values):
    values = sorted(values)
    p90 = values[max(0, -(-len(values) * 90 // 100) - 1)]
    return (f"| {name} | {len(values)} | {statistics.median(values):.0f} | {p90:.0f} | "
            f"{values[-1]:.0f} |")


def heading(title):
    print(f"\n| {title} | n | p50 ms | p90 ms | max ms |\n| --- | --- | --- | --- | --- |")


def contracts(lab):
    waits = []
    for _ in range(ROUNDS):
        victims = [lab.sbatch("-N1", "--gpus=8", "--min-runtime=0:04", script=POLITE, user="man")
                   for _ in range(NODES)]
        lab.wait_for("the victims run", lambda: len(running(lab, "-u", "man")) == NODES)
        claimants = [lab.sbatch("-N1", "--gpus=8", "--min-runtime=1:00", script="sleep 1",
                                user="games") for _ in range(NODES)]
        lab.wait_for("the claimants have run", lambda: not lab.run(
            "squeue", "-h", "-u", "games", "-o", "%i").stdout.split(), seconds=60)
        taken = {record["claimant_job_id"]: record for record in lab.json(
            "sbudget", "--json", "show", "preemption")["preemptions"]}
        begun = starts(lab)
        for job in claimants:
            if job in taken and taken[job]["victim_job_id"] in victims:
                waits.append(1000 * (begun[job] - taken[job]["contract_ended_at"]))
        lab.clear()
    heading("contract end to the claimant's start")
    print(row("victims that leave when told", waits))


def express(lab, title, kinds):
    heading(f"a debug job, `sbatch` to its first line{title}")
    for kind, name, script in (
            ("idle", "nobody has to leave", None),
            ("polite", "leaves when told (srun step)", POLITE),
            ("plain", f"plain program in the script (grace {GRACE} s)", PLAIN),
            ("deaf", f"ignores every signal (grace {GRACE} s, KillWait 5 s)", DEAF)):
        if kind not in kinds:
            continue
        victims = NODES if script else 0
        for _ in range(victims):
            lab.sbatch("-N1", "--gpus=8", "--min-runtime=0:01", "--resumable", script=script,
                       user="man")
        waits = []
        for number in range(DEBUG_JOBS):
            lab.wait_for("the cluster is full", lambda victims=victims: len(
                running(lab, "-u", "man")) == victims, seconds=60)
            time.sleep(1.5)  # contracts of a second
            file = lab.work / f"first-line-{number}"
            begun = time.time()
            lab.sbatch("-N1", "--gpus=8", "--min-runtime=0:50", user="games",
                       script=f"#!/bin/bash\ndate +%s%N >{file.name}.new\n"
                              f"mv {file.name}.new {file.name}\n")
            lab.wait_for("the debug job has begun", file.exists, seconds=60, every=0.005)
            waits.append(1000 * (int(file.read_text()) / 1e9 - begun))
            file.unlink()
        print(row(name, waits), flush=True)
        lab.run("scancel", "-u", "man", "-t", "PENDING", check=False)
        lab.run("scancel", "-u", "man", "-t", "RUNNING", "--signal=KILL", "--full", check=False)
        lab.run("scancel", "-u", "man", check=False)
        lab.wait_for("they are gone", lambda: not lab.run(
            "squeue", "-h", "-u", "man", "-o", "%i").stdout.split(), seconds=30)


def main():
    kinds = [word for word in sys.argv[1:] if word in KINDS] or KINDS
    parts = [word for word in sys.argv[1:] if word not in KINDS] or ["contracts", "express", "queue"]
    folder = Path(tempfile.mkdtemp(prefix="tranche-waits."))
    folder.chmod(0o755)
    lab = Lab(folder / "lab", nodes=NODES, gpus=8, settings=SETTINGS)
    try:
        fund(lab)
        if "contracts" in parts:
            contracts(lab)
        if "express" in parts:
            express(lab, "", kinds)
        if "queue" in parts:
            # Held back by nothing but room: gangs that need all nodes at once.
            for _ in range(100):
                lab.sbatch("--array=0-99", "-N4", "--gpus-per-node=8", script="sleep 1",
                           user="mail")
            express(lab, ", 10 000 jobs pending", kinds)
        health = lab.json("srank", "--health", "--json")
        print(f"\npreemptions {health['preemptions']}, end of grace to requeue p50 "
              f"{health['grace_delay_p50_milliseconds']} ms, p99 "
              f"{health['grace_delay_p99_milliseconds']} ms")
    finally:
        lab.stop()


if __name__ == "__main__":
    main()
