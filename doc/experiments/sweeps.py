# SPDX-License-Identifier: GPL-2.0-or-later
"""One setting after another, and what each value buys and costs: the table of sweeps.md."""
import generate
from article import some, show, wait
from generate import HOUR
from lab import Case, percent, put, save, span, table

NODES = 32
REGIMES = ("article", "overload", "saturated")


# Group, setting, its settings, other words, MaxMinRuntime that everybody declares (or None).
ROWS = [("window", f"{days} d, {shape}",
         (f"LookbackWindow={days}-00:00:00", f"WindowShape={shape}"), (), None)
        for days in (1, 3, 7, 14) for shape in ("linear", "flat")]
ROWS += [("longest minimum, which every training declares", f"{cap} h",
          (f"MaxMinRuntime={cap * HOUR}",), (), cap) for cap in (1, 2, 4, 8, 24)]
ROWS += [
    ("order and commitments", "as built", (), (), None),
    ("order and commitments", "not progressive", (), ("--without=progressive",), None),
    ("order and commitments", "`Commitments=no`", ("Commitments=no",), (), None),
    ("order and commitments", "claimant's own commitment not counted", (),
     ("--without=own-commitment",), None),
]
ROWS += [("margin", f"{value:g}", (f"PreemptMargin={value}",), (), None)
         for value in (0, 0.02, 0.05, 0.1, 0.2)]
ROWS += [("lane (`ExpressFraction`)", f"{value:g}", (f"ExpressFraction={value}",), (), None)
         for value in (0, 0.05, 0.1, 0.2)]
ROWS += [("headroom (`MaxProtectedFraction`)", f"{value:g}", (f"MaxProtectedFraction={value}",),
          (), None) for value in (1, 0.97, 0.95, 0.9, 0.8)]
ROWS += [("large jobs", f"{r} reservations, {a} assembly",
          (f"Reservations={r}", f"MaxAssemblies={a}"), (), None)
         for r, a in ((0, 0), (2, 0), (0, 1), (2, 1), (4, 1), (2, 2))]
ROWS += [("inside a team", text, settings, (), None) for text, settings in (
    ("users", ()), ("pooled", ("Sharing=pooled",)), ("users, `RaisedShare=0`", ("RaisedShare=0",)))]
ROWS += [("`PreemptWithinBudget`", value, (f"PreemptWithinBudget={value}",), (), None)
         for value in ("no", "users", "priority", "both")]
ROWS += [("protection after an express eviction", value,
          (f"ExpressVictimProtection={value}",), (), None)
         for value in ("15:00", "1:00:00", "4:00:00", "full")]
ROWS += [("waking at a contract's end", "no: at the next pass", (), ("--without=wake",), None)]


def case_of(lab, regime, seed, cap):
    if cap is None:
        return lab.regime(regime, NODES, seed)

    def make():
        workload, teams, _ = generate.regime(regime, NODES, seed)
        for job in workload.jobs:
            if job["class"] == "training":
                job["min_runtime"] = cap * HOUR
        return workload, generate.budgets_of(teams)

    return Case(lab.workload(f"cap-{cap}-{regime}-{seed}", make), f"{NODES}x8",
                generate.REGIMES[regime]["days"] * generate.DAY)


def measure(lab, seeds, rows=None):
    rows = ROWS if rows is None else rows
    items = [(row, regime, seed) for row in rows for regime in REGIMES for seed in seeds]
    for row, regime, seed in items:
        case_of(lab, regime, seed, row[4])

    def run(item):
        (_, _, settings, more, cap), regime, seed = item
        return lab.run(case_of(lab, regime, seed, cap), "budget", settings, more=more)

    got = {}
    for (row, regime, _), answer in zip(items, lab.each(run, items)):
        got.setdefault((row[0], row[1], regime), []).append(answer)
    return got


FIGURES = (
    ("article: debug p90", "article", wait("debug", "p90"), span),
    ("goodput", "article", lambda a: a["goodput_fraction"], percent),
    ("overload: debug p90", "overload", wait("debug", "p90"), span),
    ("trainings p90", "overload", wait("training", "p90"), span),
    ("large p50", "overload", wait("large", "p50"), span),
    ("delivered", "overload", lambda a: a["delivered_fraction"], percent),
    ("worst team", "overload", lambda a: a["teams"]["worst"]["delivered_fraction"], percent),
    ("starved", "overload", lambda a: a["starved_fraction"], percent),
    ("goodput", "overload", lambda a: a["goodput_fraction"], percent),
    ("saturated: starved", "saturated", lambda a: a["starved_fraction"], percent),
    ("goodput", "saturated", lambda a: a["goodput_fraction"], percent),
)


def tables(got):
    """{group: table}"""
    out = {}
    for group, text, *_ in ROWS:
        row = [text]
        for _, regime, read, how in FIGURES:
            row.append(show(some(map(read, got[group, text, regime])), how))
        out.setdefault(group, []).append(row)
    return {group: table([group, *(name for name, *_ in FIGURES)], rows)
            for group, rows in out.items()}


def small_cluster(lab, seeds):
    """The lane's size where 120 debug jobs a day are dense: 88 GPUs, its GPUs by ExpressFraction."""
    rows = []
    for fraction in (0.1, 0.19, 0.28):
        row = [f"{fraction:g} ({max(8, int(88 * fraction))} GPUs)"]
        for regime in ("article", "overload"):
            answers = lab.each(lambda seed, r=regime, f=fraction: lab.run(
                lab.regime(r, 11, seed), "budget", (f"ExpressFraction={f}",)), seeds)
            waits = [wait("debug", "p90")(answer) for answer in answers]
            row += [span(some(waits)), span(max(waits)),
                    percent(some(a["delivered_fraction"] for a in answers)),
                    percent(some(a["goodput_fraction"] for a in answers))]
        rows.append(row)
    return table(["lane, 88 GPUs", "article: debug p90", "worst seed", "delivered", "goodput",
                  "overload: debug p90", "worst seed", "delivered", "goodput"], rows)


def run(lab, seeds):
    put("sweeps.md", "lane 88", small_cluster(lab, range(1, 13)))
    got = measure(lab, seeds)
    for group, text in tables(got).items():
        put("sweeps.md", group, text)
    save("sweeps", [{"group": group, "value": text,
                     "figures": [[regime, name, some(map(read, got[group, text, regime]))]
                                 for name, regime, read, _ in FIGURES]}
                    for group, text, *_ in ROWS])
