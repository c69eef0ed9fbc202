# SPDX-License-Identifier: GPL-2.0-or-later
"""Published traces under all policies: the tables of traces.md."""
import collections
import csv
import gzip
import json
import os

from article import show, wait
from lab import Case, percent, put, save, span, table

FOLDER = "traces"
POLICIES = ("budget", "article", "slots", "fairtree", "fifo")
ASSUME = ("--assume=min_runtime=min(1h,runtime) resumable=1 users=10 time_limit=1.5*runtime+1h "
          "restart_seconds=5m checkpoint_seconds=30m")
INJECT = "--inject=debug:120/day"
CASES = (  # name, file, cluster, what is put before the table
    ("philly 1024", "philly.csv.gz", "128x8"),
    ("philly 768", "philly.csv.gz", "96x8"),
    ("philly 512", "philly.csv.gz", "64x8"),
    ("hpc2n", "hpc2n-3k.swf", "120x2"),
)


def philly_budgets(path, out):
    """Shares by the GPU hours that each virtual cluster used in the trace, at least 1 of 1000."""
    used = collections.Counter()
    with gzip.open(path, "rt") as file:
        for job in csv.DictReader(file):
            used[job["account"]] += int(job["gpus"]) * int(job["runtime"])
    total = sum(used.values())
    with open(out, "w") as file:
        json.dump({"version": 1, "budgets": [
            {"name": name, "parent": "root", "shares": max(1, round(1000 * seconds / total)),
             "accounts": [name]} for name, seconds in sorted(used.items())]}, file, indent=1)


def case_of(lab, name, file, cluster):
    path = os.path.abspath(os.path.join(FOLDER, file))
    case = Case("", cluster, None, path, None, None)
    if name.startswith("philly"):
        case.budgets = os.path.join(lab.out, "philly_budgets.json")
        if not os.path.exists(case.budgets):
            philly_budgets(path, case.budgets)
    return case


def by_team(answers, read, how):
    rows = []
    for together in zip(*(answer["budgets"] for answer in answers)):
        if together[0]["name"] == "root" or not together[0]["wait_seconds"]["count"]:
            continue
        rows.append([together[0]["name"], percent(together[0]["funded_fraction"]),
                     together[0]["wait_seconds"]["count"],
                     f"{together[0]['owed_gpu_hours']:.0f}",
                     *(how(read(budget)) for budget in together)])
    return table(["team", "funded", "jobs", "owed, budget",
                  *(f"`{policy}`" for policy in POLICIES)], rows)


def run(lab, _seeds):
    missing = [file for _, file, _ in CASES if not os.path.exists(os.path.join(FOLDER, file))]
    if missing:
        print(f"traces: {missing[0]} is not in {FOLDER}; see traces.md. Left out.")
        return
    items = [(entry, policy) for entry in CASES for policy in POLICIES]

    def one(item):
        entry, policy = item
        return lab.run(case_of(lab, *entry), policy, more=(ASSUME, INJECT))

    for entry in CASES:
        case_of(lab, *entry)
    answers = {(entry[0], policy): answer
               for (entry, policy), answer in zip(items, lab.each(one, items))}
    results = {}
    for name, _, _ in CASES:
        rows = []
        for text, read, how in (
                ("all p50", wait("all", "p50"), span), ("all p90", wait("all", "p90"), span),
                ("all mean", wait("all", "mean"), span),
                ("debug p50", wait("debug", "p50"), span),
                ("debug p90", wait("debug", "p90"), span),
                ("small p90", wait("small", "p90"), span),
                ("large p90", wait("large", "p90"), span),
                ("delivered", lambda a: a["delivered_fraction"], percent),
                ("teams ≥ 95 %", lambda a: a["teams"]["at_least_95_percent"],
                 lambda value: f"{value} of {answers[name, 'budget']['teams']['count']}"),
                ("worst team", lambda a: a["teams"]["worst"]["delivered_fraction"], percent),
                ("starved half-days", lambda a: a["starved_fraction"], percent),
                ("preemptions", lambda a: a["preemptions"]["total"], str),
                ("goodput", lambda a: a["goodput_fraction"], percent),
                ("occupancy", lambda a: a["occupancy"], percent)):
            values = [read(answers[name, policy]) for policy in POLICIES]
            rows.append([text, *(show(value, how) for value in values)])
            results[f"{name}: {text}"] = dict(zip(POLICIES, values))
        put("traces.md", name, table(["", *(f"`{policy}`" for policy in POLICIES)], rows))
    for name, mark, read, how in (
            ("philly 512", "teams 512", lambda b: b["delivered_fraction"], percent),
            ("philly 512", "team waits 512", lambda b: b["wait_seconds"]["p90"], span),
            ("philly 768", "team waits 768", lambda b: b["wait_seconds"]["p90"], span)):
        put("traces.md", mark, by_team([answers[name, policy] for policy in POLICIES], read, how))
    save("traces", results)
