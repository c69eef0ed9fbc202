# SPDX-License-Identifier: GPL-2.0-or-later
"""The article's experiment: tables of article.md."""
import os
import subprocess

import bars
import chart
import generate
import lab as laboratory
import readings
from generate import DAY, HOUR
from lab import mean, percent, put, save, span, table

SIZES = (11, 32, 128)
POLICIES = ("slots", "article", "budget")
REGIMES = ("article", "overload", "saturated")
PUBLISHED = {  # of the article's regime
    "debug p90": "6 h → 5 min", "all p50": "5 min → 24 s", "all p90": "2.8 h → 1.8 h",
    "occupancy": "98 % → 98 %", "free share": "18 %", "delivered": "98 %",
    "teams ≥ 95 %": "13 of 15", "worst team": "90 %",
}
# What the departures of DESIGN 2.11 are, by the setting that undoes each.
DEPARTURES = (
    ("window", ("WindowShape=flat",)),
    ("edits", ("EntitlementHistory=no",)),
    ("commitments", ("Commitments=no",)),
    ("margin", ("PreemptMargin=0",)),
    ("debug jobs: lane", ("ExpressFraction=0",)),
    ("debug jobs: headroom", ("MaxProtectedFraction=1",)),
    ("debug jobs: both", ("ExpressFraction=0", "MaxProtectedFraction=1")),
    ("contract after an express eviction", ("ExpressVictimProtection=full",)),
    ("large jobs", ("Reservations=0", "MaxAssemblies=0")),
    ("inside a team", ("Sharing=pooled", "RaisedShare=0")),
)


def wait(name, part):
    def read(answer):
        figures = answer["wait_seconds"].get(name)
        return figures[part] if figures and figures["count"] else None

    return read


def some(values):
    """Mean of those that are there."""
    values = [value for value in values if value is not None]
    return mean(values) if values else None


def show(value, how):
    return "–" if value is None else how(value)


FIGURES = (
    ("debug p50", wait("debug", "p50"), span), ("debug p90", wait("debug", "p90"), span),
    ("all p50", wait("all", "p50"), span), ("all p90", wait("all", "p90"), span),
    ("small p50", wait("small", "p50"), span), ("small p90", wait("small", "p90"), span),
    ("trainings p50", wait("training", "p50"), span),
    ("trainings p90", wait("training", "p90"), span),
    ("large p50", wait("large", "p50"), span), ("large p90", wait("large", "p90"), span),
    ("occupancy", bars.key("occupancy"), percent),
    ("free share", bars.key("unallocated_fraction"), percent),
    ("delivered", bars.key("delivered_fraction"), percent),
    ("teams ≥ 95 %", bars.teams_at_95, lambda value: f"{value:.1f} of 15"),
    ("worst team", bars.worst_team, percent),
    ("starved half-days", bars.key("starved_fraction"), percent),
    ("lost GPU hours, requeued", lambda a: a["lost_gpu_hours"]["requeued"],
     lambda value: f"{value:.0f}"),
    ("lost GPU hours, ended", lambda a: a["lost_gpu_hours"]["ended"],
     lambda value: f"{value:.0f}"),
    ("goodput", bars.key("goodput_fraction"), percent),
    ("occupancy × goodput", lambda a: a["occupancy"] * a["goodput_fraction"], percent),
    ("preemptions a day", lambda a: a["preemptions"]["total"] * DAY / a["simulated_seconds"],
     lambda value: f"{value:.0f}"),
    ("demand, allocated", lambda a: a["demand_factor"]["allocated"], lambda v: f"{v:.2f} ×"),
    ("demand, free", lambda a: a["demand_factor"]["free"], lambda v: f"{v:.2f} ×"),
)


def all_answers(lab, seeds, sizes=SIZES, regimes=REGIMES, policies=POLICIES):
    items = [(nodes, regime, policy, seed) for nodes in sizes for regime in regimes
             for policy in policies for seed in seeds]
    for nodes, regime, _, seed in items:
        lab.regime(regime, nodes, seed)

    def run(item):
        nodes, regime, policy, seed = item
        return lab.run(lab.regime(regime, nodes, seed), policy)

    out = {}
    for (nodes, regime, policy, _), answer in zip(items, lab.each(run, items)):
        out.setdefault((nodes, regime, policy), []).append(answer)
    return out


def three_columns(answers, nodes, regime):
    rows = []
    for name, read, how in FIGURES:
        cells = [show(some(map(read, answers[nodes, regime, policy])), how)
                 for policy in POLICIES]
        if regime == "saturated" and name.startswith("debug"):
            continue
        row = [name, *cells]
        if regime == "article":
            row.append(PUBLISHED.get(name, ""))
        rows.append(row)
    head = ["", *(f"`{policy}`" for policy in POLICIES)]
    return table(head + ["published"] if regime == "article" else head, rows)


def bar_rows(answers, seeds):
    rows = []
    for nodes, regime, policy, wanted in bars.BARS:
        got = answers[nodes, regime, policy]
        for bar in wanted:
            values = bar.values(got)
            rows.append([f"{nodes * 8}, {regime}", bar.text,
                         *(f"{value:.{bar.digits}f}" for value in values),
                         f"{mean(values):.{bar.digits}f}",
                         "met" if bar.met(got) else "**not met**"])
    return ["GPUs, regime", "bar", *(f"seed {seed}" for seed in seeds), "mean", ""], rows


def bursty(lab, seeds):
    """[(funded, {policy: charged})] of the team that wants its week in half a week."""
    items = [(policy, seed) for policy in POLICIES for seed in seeds]
    for seed in seeds:
        lab.regime("bursty", 32, seed)
    got = dict(zip(items, lab.each(lambda item: lab.run(lab.regime("bursty", 32, item[1]), item[0]),
                                   items)))
    out = []
    for seed in seeds:
        by_policy = {}
        for policy in POLICIES:
            budget = next(b for b in got[policy, seed]["budgets"] if b["name"] == "t01")
            by_policy[policy] = budget["charged_gpu_hours"]
            funded = budget["funded_fraction"] * 256 * 14 * 24
        out.append((funded, by_policy))
    return out


def bursty_table(rows, seeds):
    body = []
    for seed, (funded, charged) in zip(seeds, rows):
        body.append([f"seed {seed}", f"{funded:.0f}",
                     *(f"{charged[policy]:.0f}" for policy in POLICIES),
                     percent(charged["budget"] / funded),
                     f"{charged['budget'] / charged['slots']:.2f} ×"])
    return table(["", "funded", *(f"`{policy}`" for policy in POLICIES), "budget ÷ funded",
                  "budget ÷ slots"], body)


def bursty_bars(rows):
    return [("bursty team ≥ 1.10 × its `slots` hours",
             [charged["budget"] / charged["slots"] for _, charged in rows], 1.10),
            ("bursty team ≥ .99 of its funding",
             [charged["budget"] / funded for funded, charged in rows], 0.99)]


def per_team(slots, budget):
    rows = []
    for before, after in zip(slots["budgets"], budget["budgets"]):
        if before["name"] == "root":
            continue
        rows.append([before["name"], percent(before["funded_fraction"]),
                     f"{after['owed_gpu_hours']:.0f}", f"{before['charged_gpu_hours']:.0f}",
                     f"{after['charged_gpu_hours']:.0f}",
                     f"{after['charged_gpu_hours'] / max(before['charged_gpu_hours'], 1):.2f} ×",
                     f"{before['unallocated_gpu_hours']:.0f}",
                     f"{after['unallocated_gpu_hours']:.0f}",
                     span(before["wait_seconds"]["p90"]), span(after["wait_seconds"]["p90"])])
    return table(["team", "funded", "owed", "charged, slots", "charged, budget", "÷",
                  "free, slots", "free, budget", "p90, slots", "p90, budget"], rows)


def by_size(answers):
    sizes = []
    for got in answers.values():
        for answer in got:
            for size in answer["wait_seconds_by_size"]:
                if size not in sizes:
                    sizes.append(size)
    sizes.sort(key=lambda text: int(text.split("-")[0]))
    rows = []
    for size in sizes:
        row = [size]
        for policy in POLICIES:
            for part in ("p50", "p90"):
                row.append(show(some(
                    answer["wait_seconds_by_size"].get(size, {}).get(part)
                    for answer in answers[policy]), span))
        rows.append(row)
    return table(["GPUs"] + [f"`{policy}` {part}" for policy in POLICIES
                             for part in ("p50", "p90")], rows)


def growth(lab, seed, before, kind):
    compared = lab.compare(lab.regime("article", 32, seed), (before, "budget"))
    growths = compared["largest_p90_growth"][0][kind]
    return [[entry["name"], entry["jobs"], span(entry["p90_before_seconds"]),
             span(entry["p90_after_seconds"])] for entry in growths]


def drains(lab, seeds):
    """Seconds from a drain to an empty node, by policy."""
    out = {}
    items = [(policy, seed) for policy in ("fairtree", "article", "budget") for seed in seeds]
    for seed in seeds:
        lab.regime("drains", 32, seed)
    for (policy, _), answer in zip(items, lab.each(
            lambda item: lab.run(lab.regime("drains", 32, item[1]), item[0], trace=True), items)):
        for line in answer["trace"]:
            if line["do"] == "drain":
                end = DAY if line["empty_at"] is None else line["empty_at"] - line["at"]
                out.setdefault(policy, []).append(min(end, DAY))
    return out


def drains_table(times):
    late = 8 * HOUR + 600
    rows = []
    for policy, seconds in times.items():
        rows.append([f"`{policy}`", len(seconds),
                     *(span(readings.percentile(seconds, part)) for part in (50, 90)),
                     span(max(seconds)) if max(seconds) < DAY else "> 1 d",
                     percent(sum(1 for value in seconds if value > late) / len(seconds)),
                     percent(sum(1 for value in seconds if value > late + HOUR) / len(seconds))])
    return table(["", "drains", "empty after, p50", "p90", "longest", "after 8 h + grace",
                  "after 9 h + grace"], rows)


def departures(lab, seeds):
    """Each departure undone alone, and all of them: changes against `budget`."""
    cases = [("all of them: `Policy=article`", "article", ())]
    cases += [(name, "budget", settings) for name, settings in DEPARTURES]
    cases.append(("none", "budget", ()))
    items = [(name, policy, settings, regime, seed) for name, policy, settings in cases
             for regime in REGIMES for seed in seeds]
    got = {}
    for (name, _, _, regime, _), answer in zip(items, lab.each(
            lambda item: lab.run(lab.regime(item[3], 32, item[4]), item[1], item[2]), items)):
        got.setdefault((name, regime), []).append(answer)
    return cases, got


def departures_table(cases, got):
    rows = []
    for name, _, settings in cases:
        row = [name + (" (`" + " ".join(settings) + "`)" if settings else "")]
        for regime in REGIMES:
            row.append(percent(mean(a["goodput_fraction"] for a in got[name, regime])))
        for regime in ("article", "overload"):
            row.append(span(mean(a["wait_seconds"]["debug"]["p90"] for a in got[name, regime])))
        for regime in ("overload", "saturated"):
            row.append(percent(mean(a["starved_fraction"] for a in got[name, regime])))
        row.append(percent(mean(a["delivered_fraction"] for a in got[name, "overload"])))
        large = some(wait("large", "p50")(a) for a in got[name, "overload"])
        row.append(show(large, span))
        rows.append(row)
    return table(["undone", "goodput, article", "overload", "saturated", "debug p90, article",
                  "overload", "starved, overload", "saturated", "delivered, overload",
                  "large p50, overload"], rows)


def pictures(lab, seed=1):
    folder = os.path.join(laboratory.HERE, "pictures")
    os.makedirs(folder, exist_ok=True)
    # Two days of the small cluster, so that single GPUs can be seen.
    workload, teams, _ = generate.regime("article", 11, seed)
    workload.cut(2 * DAY)
    case = laboratory.Case(
        lab.workload("picture", lambda: (workload, generate.budgets_of(teams))), "11x8", 2 * DAY)
    subprocess.run([lab.sreplay, "compare", "--policy=slots,budget", *lab.arguments(case),
                    "--svg=" + os.path.join(folder, "article_timeline.svg"), "--json"],
                   stdout=subprocess.DEVNULL, check=True)
    case = lab.regime("article", 32, seed)
    until = case.until
    series = []
    for policy in POLICIES:
        answer = lab.run(case, policy, trace=True)
        series.append((policy, readings.waits(case, answer, until, readings.is_debug)))
    chart.wait_curves(os.path.join(folder, "article_debug_waits.svg"),
                      "Debug jobs, article's regime, 256 GPUs", series)
    case = lab.regime("saturated", 32, seed)
    series = []
    name, level = None, 0
    for text, policy in (("budget (linear window)", "budget"), ("article (flat window)",
                                                                "article")):
        answer = lab.run(case, policy, trace=True)
        if name is None:
            largest = max((b for b in answer["budgets"] if b["name"] != "root"),
                          key=lambda b: b["funded_fraction"])
            name, level = largest["name"], largest["funded_fraction"] * 256
        series.append((text, readings.held(answer, case.until, 12 * HOUR)[name]))
    chart.over_days(os.path.join(folder, "saturated_share.svg"),
                    f"One team's GPUs in six saturated weeks ({name})", series, 12 * HOUR, "GPUs",
                    levels=[(level, "funded")])


def run(lab, seeds):
    answers = all_answers(lab, seeds)
    head, rows = bar_rows(answers, seeds)
    burst = bursty(lab, seeds)
    for text, values, least in bursty_bars(burst):
        rows.append(["256, article", text, *(f"{value:.3f}" for value in values),
                     f"{mean(values):.3f}",
                     "met" if min(values) >= least else "**not met**"])
    put("article.md", "bars", table(head, rows))
    for nodes in SIZES:
        for regime in REGIMES:
            put("article.md", f"{regime} {nodes * 8}", three_columns(answers, nodes, regime))
    put("article.md", "teams", per_team(answers[32, "article", "slots"][0],
                                        answers[32, "article", "budget"][0]))
    put("article.md", "bursty", bursty_table(burst, seeds))
    for regime in ("article", "overload"):
        put("article.md", f"sizes {regime}", by_size(
            {policy: answers[32, regime, policy] for policy in POLICIES}))
    for before in ("slots", "article"):
        for kind in ("users", "budgets"):
            put("article.md", f"growth {before} {kind}", table(
                [kind[:-1], "jobs", f"p90, {before}", "p90, budget"],
                growth(lab, seeds[0], before, kind)))
    times = drains(lab, seeds)
    put("article.md", "drains", drains_table(times))
    cases, undone = departures(lab, seeds)
    put("article.md", "departures", departures_table(cases, undone))
    pictures(lab, seeds[0])
    save("article", {
        "bars": [dict(zip(head[:-1] + ["met"], row)) for row in rows],
        "runs": {f"{nodes * 8} {regime} {policy}": {
            name: [read(answer) for answer in got] for name, read, _ in FIGURES}
            for (nodes, regime, policy), got in answers.items()},
        "drains": {policy: sorted(seconds) for policy, seconds in times.items()}})
    return rows
