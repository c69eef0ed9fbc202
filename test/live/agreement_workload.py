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


def jobs():
    """Rows of COLUMNS, by submission; tasks of an array follow each other."""
    found = []

    def add(name, minute, user, gpus, runs, min_minutes, nodes=1, resumable=1, kind=""):
        """One job, or an array with a task for each of `runs` (minutes)."""
        for task, run in enumerate(runs):
            found.append({
                "job_id": f"{name}_{task}" if len(runs) > 1 else name,
                "submit": round(minute * MINUTE), "user": user, "gpus": gpus, "nodes": nodes,
                "min_runtime": min_minutes * MINUTE, "resumable": resumable,
                "runtime": ENDLESS if run is None else round(run * MINUTE),
                "exit_seconds": 60, "class": kind, "array": name if len(runs) > 1 else ""})

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


def as_csv(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
