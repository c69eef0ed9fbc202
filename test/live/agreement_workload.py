# SPDX-License-Identifier: GPL-2.0-or-later
"""The workload of test_live_agreement.py: the CSV file that both sides run, and the tree.

Waves of claimants meet runs whose contracts are over, each at its own minute, so that what a real
start takes does not add up from wave to wave. Between the waves a debug job takes a node, free
work fills what it leaves, and the job that had the node comes back and evicts the free work.
"""

import csv
import io

MINUTE = 60
ENDLESS = 10 * 24 * 3600
COLUMNS = ("job_id", "submit", "user", "gpus", "nodes", "min_runtime", "resumable", "runtime",
           "exit_seconds", "class", "array")

BUDGETS = {
    "version": 1,
    "budgets": [
        {"name": "research", "parent": "root", "shares": 3},
        {"name": "product", "parent": "root", "shares": 1},
        {"name": "vision", "parent": "research", "shares": 2, "users": ["games", "man"]},
        {"name": "language", "parent": "research", "shares": 1, "users": ["news"]},
        {"name": "ads", "parent": "product", "shares": 1, "users": ["mail"]},
    ],
}
PERIOD = 20
WAVES = 9
END = (20 + WAVES * PERIOD) * MINUTE


def adder(found):
    """A function that appends rows of COLUMNS."""
    def add(name, minute, user, gpus, runs, min_minutes, nodes=1, resumable=1, kind=""):
        """One job, or an array with a task for each of `runs` (minutes)."""
        for task, run in enumerate(runs):
            found.append({
                "job_id": f"{name}_{task}" if len(runs) > 1 else name,
                "submit": round(minute * MINUTE), "user": user, "gpus": gpus, "nodes": nodes,
                "min_runtime": min_minutes * MINUTE, "resumable": resumable,
                "runtime": ENDLESS if run is None else round(run * MINUTE),
                "exit_seconds": 60, "class": kind, "array": name if len(runs) > 1 else ""})
    return add


def jobs():
    """Rows of COLUMNS, by submission; tasks of an array follow each other."""
    found = []
    add = adder(found)

    # Who fills the cluster, with twice what he is funded for, and free work that fills gaps.
    for i in range(6):
        add(f"fill{i}", 0.5 + i, "mail", 8, [None], 6)
    add("gap", 7, "lp", 2, [None, None], 0)
    add("free", 7.5, "lp", 8, [None] * 16, 0)
    for wave in range(WAVES):
        at = 20 + wave * PERIOD
        name = f"w{wave}"
        if wave == WAVES - 1:  # four nodes, the last of them still under contract
            for i, user in enumerate(("games", "news", "man", "games")):
                add(f"{name}{'abce'[i]}", at + 0.3 + i, user, 8, [8], 6)
            continue
        if wave % 3 == 0:
            add(f"{name}a", at, "games", 8, [8], 6)
            add(f"{name}b", at + 2, "man", 8, [8], 6)
        elif wave % 3 == 1:
            add(f"{name}a", at, "news", 8, [8], 6)
            add(f"{name}b", at + 1.5, "man", 16, [8], 6, nodes=2)
        else:
            add(f"{name}a", at, "news", 8, [7.5, 9], 6)
            add(f"{name}b", at + 2, "games", 8, [8.5], 6)
        users = ("man", "games", "news")
        add(f"{name}d", at + 13, users[wave % 3], 2, [4], 3, resumable=0, kind="debug")
        add(f"{name}e", at + 15, users[(wave + 1) % 3], 2, [2], 2, resumable=0, kind="debug")
    found.sort(key=lambda job: job["submit"])
    return found


# The second workload: eight nodes, one of them kept open by the headroom.
LARGE_NODES = 8
LARGE_SETTINGS = {"MaxProtectedFraction": "0.875", "AssemblyMinFraction": "0.5",
                  "AssemblyPause": "1:00:00", "Reservations": "2", "MaxAssemblies": "1"}
LARGE_PERIOD = 120
LARGE_WAVES = 2
LARGE_END = 196 * MINUTE


def large_jobs():
    """Gangs, reservations, assemblies and the headroom: contracts of different lengths end one
    after the other, and a gang of half the cluster gathers its nodes meanwhile. The first time on
    an empty cluster, the second time on one that is full of expired contracts."""
    found = []
    add = adder(found)
    for i in range(6):
        add(f"fill{i}", 90.5 + i, "mail", 8, [None], 6, resumable=0)
    for wave in range(LARGE_WAVES):
        at = 2 + wave * LARGE_PERIOD
        name = f"w{wave}"
        # Contracts of 20, 26, 32 … minutes on seven nodes; the eighth is the headroom's.
        for i, user in enumerate(("games", "news", "man", "games", "news", "man", "games")):
            add(f"{name}s{i}", at + 1.2 * i, user, 8, [60], 20 + 6 * i)
        # The headroom alone stops it: it starts free where a node is idle.
        add(f"{name}h", at + 11, "news", 8, [30], 10)
        # Half of the cluster: its nodes are gathered.
        add(f"{name}g", at + 14, "man", 32, [9], 10, nodes=4)
        # Must stay out of its way.
        add(f"{name}l", at + 16, "games", 8, [16], 15)
        add(f"{name}t", at + 63.5, "news", 16, [9], 8, nodes=2)
        add(f"{name}d", at + 66.3, "games", 2, [4], 3, resumable=0, kind="debug")
    found.sort(key=lambda job: job["submit"])
    return found


def as_csv(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
