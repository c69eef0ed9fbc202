# SPDX-License-Identifier: GPL-2.0-or-later
"""The knobs of doc/knobs.md: the overload with and without each, and two weeks they are for."""
import generate
import readings
import weeks
from article import some, show, wait
from bars import key, worst_team
from generate import DAY
from lab import Case, percent, put, save, span, table

NODES = 32
REGIME = "overload"

# Table, text of the row, policy, settings. The first row of a table is the default.
DEFAULT = ("default", "budget", ())
ROWS = [("policy", *row) for row in (
    DEFAULT,
    ("`Policy=article`", "article", ()),
    ("`DryRun=yes`: Slurm's Fair Tree goes on", "fairtree", ()),
    ("(`slots`, what the article replaced)", "slots", ()))]
ROWS += [("preemption", text, "budget", settings) for text, settings in (
    ("default: `PreemptMargin=0.05 PreemptWithinBudget=no MaxPreemptionsPerHour=0`", ()),
    ("`PreemptMargin=0`", ("PreemptMargin=0",)),
    ("`PreemptMargin=0.2`", ("PreemptMargin=0.2",)),
    ("`PreemptWithinBudget=users`", ("PreemptWithinBudget=users",)),
    ("`PreemptWithinBudget=priority`", ("PreemptWithinBudget=priority",)),
    ("`MaxPreemptionsPerHour=40`", ("MaxPreemptionsPerHour=40",)),
    ("`MaxPreemptionsPerHour=20`", ("MaxPreemptionsPerHour=20",)),
    ("`MaxPreemptionsPerHour=10`", ("MaxPreemptionsPerHour=10",)))]
ROWS += [("lane", text, "budget", settings) for text, settings in (
    ("default: 8 GPUs, 2 nodes, 15 min; `ExpressFraction=0.10`", ()),
    ("`ExpressFraction=0`: no lane", ("ExpressFraction=0",)),
    ("`ExpressGPUs=2`", ("ExpressGPUs=2",)),
    ("`ExpressMinRuntime=5:00`", ("ExpressMinRuntime=5:00",)),
    ("`ExpressMinRuntime=1:00:00`", ("ExpressMinRuntime=1:00:00",)),
    ("`ExpressGPUsPerUser=32`", ("ExpressGPUsPerUser=32",)),
    ("`ExpressHoursPerUser=4`", ("ExpressHoursPerUser=4",)),
    ("`ExpressHoursPerUser=1000`", ("ExpressHoursPerUser=1000",)),
    ("`ExpressVictimProtection=full`", ("ExpressVictimProtection=full",)),
    ("`ExpressVictimProtection=0`", ("ExpressVictimProtection=0",)))]
ROWS += [("headroom", text, "budget", settings) for text, settings in (
    ("default: `MaxProtectedFraction=0.95`", ()),
    ("`MaxProtectedFraction=1`: no headroom", ("MaxProtectedFraction=1",)),
    ("`MaxProtectedFraction=0.8`", ("MaxProtectedFraction=0.8",)),
    ("no lane and no headroom", ("ExpressFraction=0", "MaxProtectedFraction=1")))]
ROWS += [("window", text, "budget", settings) for text, settings in (
    ("default: `LookbackWindow=7-0 WindowShape=linear Sharing=users`", ()),
    ("`WindowShape=flat`", ("WindowShape=flat",)),
    ("`LookbackWindow=1-00:00:00`", ("LookbackWindow=1-00:00:00",)),
    ("`Sharing=pooled`", ("Sharing=pooled",)),
    ("`Reservations=0 MaxAssemblies=0`", ("Reservations=0", "MaxAssemblies=0")))]

FIGURES = (
    ("debug p90", wait("quick", "p90"), span),
    ("trainings p90", wait("training", "p90"), span),
    ("large p50", wait("large", "p50"), span),
    ("delivered", key("delivered_fraction"), percent),
    ("worst team", worst_team, percent),
    ("starved", key("starved_fraction"), percent),
    ("goodput", key("goodput_fraction"), percent),
    ("preempted a day", lambda a: a["preemptions"]["total"] * DAY / a["simulated_seconds"],
     lambda value: f"{value:.0f}"),
)


def case_of(lab, seed):
    """The debug jobs in a class of their own, whatever the settings say is one."""
    def make():
        workload, teams, _ = generate.regime(REGIME, NODES, seed)
        for job in workload.jobs:
            if readings.is_debug(job):
                job["class"] = "quick"
        return workload, generate.budgets_of(teams)

    return Case(lab.workload(f"knobs-{seed}", make), f"{NODES}x8",
                generate.REGIMES[REGIME]["days"] * DAY)


def measure(lab, seeds, rows=None):
    """{(table, row): [answer of each seed]}"""
    items = [(row, seed) for row in rows or ROWS for seed in seeds]
    for seed in seeds:
        case_of(lab, seed)

    def run(item):
        (_, _, policy, settings), seed = item
        return lab.run(case_of(lab, seed), policy, settings)

    got = {}
    for (row, _), answer in zip(items, lab.each(run, items)):
        got.setdefault(row[:2], []).append(answer)
    return got


def tables(got):
    """{table: its text}"""
    out = {}
    for group, text, *_ in ROWS:
        answers = got[group, text]
        out.setdefault(group, []).append(
            [text, *(show(some(map(read, answers)), how) for _, read, how in FIGURES)])
    return {group: table(["", *(name for name, *_ in FIGURES)], rows)
            for group, rows in out.items()}


def morning(lab, seeds):
    """What lane and headroom are for: all contracts are fresh after maintenance."""
    week = next(week for week in weeks.WEEKS if week.name == "morning")
    rows = []
    for text, settings in (
            ("default", ()), ("`MaxProtectedFraction=1`", ("MaxProtectedFraction=1",)),
            ("`ExpressFraction=0`", ("ExpressFraction=0",)),
            ("both", ("ExpressFraction=0", "MaxProtectedFraction=1"))):
        answers = lab.each(lambda seed, s=settings: lab.run(week.case(lab, seed), "budget", s),
                           seeds)
        rows.append([text, show(some(map(wait("debug", "p50"), answers)), span),
                     show(some(map(wait("debug", "p90"), answers)), span)])
    return table(["a morning after maintenance", "debug p50", "debug p90"], rows)


def run(lab, seeds):
    got = measure(lab, seeds)
    for group, text in tables(got).items():
        put("../knobs.md", group, text)
    put("../knobs.md", "morning", morning(lab, seeds))
    save("knobs", [{"table": group, "row": text, "policy": policy, "settings": list(settings),
                    "figures": {name: some(map(read, got[group, text]))
                                for name, read, _ in FIGURES}}
                   for group, text, policy, settings in ROWS])
