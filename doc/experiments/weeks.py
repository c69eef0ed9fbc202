# SPDX-License-Identifier: GPL-2.0-or-later
"""The weeks people fear: each is a workload, what is read from it, and what must hold."""
import os

import chart
import generate
import readings
from generate import DAY, HOUR, MINIMA, Chance
from lab import Case, mean, percent, span

NODES = 32
GPUS = NODES * generate.GPUS_PER_NODE
HALF_DAY = 12 * HOUR


class Table:
    def __init__(self, head, rows):
        self.head = head
        self.rows = rows


class Outcome:
    """What a week gave: a table, and (what, value, least, most) that must hold."""

    def __init__(self, table, claims):
        self.table = table
        self.claims = claims

    def broken(self):
        return [(what, value) for what, value, least, most in self.claims
                if not (least is None or value >= least) or not (most is None or value <= most)]


def steady(workload, teams, seed, until, part, begin=0, median=12 * HOUR, minima=MINIMA,
           wait_class="training"):
    for team in teams:
        generate.lines_of_work(workload, Chance(seed, f"steady {team.name}"), team,
                               part * team.funded, begin, until, 6 * HOUR, median,
                               generate.training_size, minima, wait_class, (0.7, 1.3), 0.04)


def named_teams(shares, gpus=GPUS):
    return [generate.Team(name, share, gpus * share / sum(shares.values()))
            for name, share in shares.items()]


class Week:
    name = ""
    title = ""
    days = 7
    nodes = NODES
    seeds = (1, 2, 3)

    def make(self, seed):
        raise NotImplementedError

    def case(self, lab, seed):
        folder = lab.workload(f"week-{self.name}-{seed}", lambda: self.make(seed))
        return Case(folder, f"{self.nodes}x8", self.days * DAY)

    def variants(self):
        """Column name, policy, settings."""
        return [("slots", "slots", ()), ("article", "article", ()), ("budget", "budget", ())]

    def answers(self, lab, seeds):
        """{variant: [(case, answer) for each seed]}"""
        items = [(variant, seed) for variant in self.variants() for seed in seeds]

        def run(item):
            (_, policy, settings), seed = item
            case = self.case(lab, seed)
            return case, lab.run(case, policy, settings, trace=True)

        out = {}
        for seed in seeds:
            self.case(lab, seed)
        for ((name, _, _), _), got in zip(items, lab.each(run, items)):
            out.setdefault(name, []).append(got)
        return out

    def outcome(self, got):
        raise NotImplementedError

    def picture(self, got, path):
        raise NotImplementedError

    @property
    def until(self):
        return self.days * DAY


def rows_by_variant(got, readers):
    """One row a figure, one column a variant; the mean over the seeds."""
    rows = []
    values = {}
    for text, read, show in readers:
        cells = []
        for name, answers in got.items():
            value = mean(read(case, answer) for case, answer in answers)
            values[text, name] = value
            cells.append(show(value))
        rows.append([text] + cells)
    return rows, values


def times(value):
    return f"{value:.2f} ×"


class Comeback(Week):
    name = "comeback"
    title = "A team back after a silent week, with five times its demand"
    days = 14

    def make(self, seed):
        teams = generate.draw_teams(GPUS, seed)
        workload = generate.Workload()
        steady(workload, teams[1:], seed, self.until, 2.0)
        steady(workload, teams[:1], seed, self.until, 5.0, begin=7 * DAY)
        generate.debug_jobs(workload, teams, seed, self.until, generate.DEBUG_PER_DAY)
        return workload, generate.budgets_of(teams)

    @staticmethod
    def funded(answer):
        return {budget["name"]: budget["funded_fraction"] * GPUS for budget in answer["budgets"]}

    def first_days(self, answer, days):
        bins = readings.held(answer, self.until, HOUR)["t01"]
        return mean(bins[7 * 24:7 * 24 + days * 24]) / self.funded(answer)["t01"]

    def reaches(self, answer):
        bins = readings.held(answer, self.until, 600)["t01"]
        funded = self.funded(answer)["t01"]
        for number in range(7 * 144, len(bins)):
            if bins[number] >= funded:
                return number * 600 - 7 * DAY
        return 7 * DAY

    def others_worst(self, answer):
        """The worst half-day of any other team after the return, in parts of its funding."""
        funded = self.funded(answer)
        held = readings.held(answer, self.until, HALF_DAY)
        return min(value / funded[name] for name, bins in held.items() if name != "t01"
                   for value in bins[14:])

    def outcome(self, got):
        rows, values = rows_by_variant(got, [
            ("until it holds what it is funded for", lambda c, a: self.reaches(a), span),
            ("first day, ÷ its funding", lambda c, a: self.first_days(a, 1), times),
            ("first three days", lambda c, a: self.first_days(a, 3), times),
            ("first week", lambda c, a: self.first_days(a, 7), times),
            ("worst half-day of another team, ÷ its funding",
             lambda c, a: self.others_worst(a), times),
            ("others delivered", lambda c, a: mean(
                b["delivered_fraction"] for b in a["budgets"]
                if b["name"] not in ("root", "t01")), percent),
            ("goodput", lambda c, a: a["goodput_fraction"], percent)])
        return Outcome(Table(["", *got], rows), [
            ("seconds until it holds its funding", values[rows[0][0], "budget"], None, 4 * HOUR),
            ("its first week ÷ funding", values["first week", "budget"], 1.2, None),
            ("others delivered", values["others delivered", "budget"], 0.9, None)])

    def picture(self, got, path):
        series = []
        level = 0.0
        for name in ("budget", "slots"):
            case, answer = got[name][0]
            held = readings.held(answer, self.until, 4 * HOUR)
            series.append((f"t01, {name}", held["t01"]))
            level = self.funded(answer)["t01"]
        chart.over_days(path, self.title, series, 4 * HOUR, "GPUs", marks=[(7, "back")],
                        levels=[(level, "funded")])


class Shares(Week):
    name = "shares"
    title = "Leadership moves D from 10 to 40 shares"
    days = 14

    def make(self, seed):
        teams = named_teams({"A": 40, "B": 30, "C": 20, "D": 10})
        workload = generate.Workload()
        steady(workload, teams[:3], seed, self.until, 2.0)
        steady(workload, teams[3:], seed, self.until, 5.0)
        workload.events.append({"at": 7 * DAY, "do": "set_shares", "budget": "D", "shares": 40})
        return workload, generate.budgets_of(teams)

    def variants(self):
        return [("slots", "slots", ()), ("today's shares over last week's use", "budget",
                                         ("EntitlementHistory=no",)), ("budget", "budget", ())]

    def part(self, answer, name, begin, end):
        bins = readings.held(answer, self.until, HOUR)[name]
        return mean(bins[7 * 24 + begin:7 * 24 + end])

    def outcome(self, got):
        new = GPUS * 40 / 130

        def worst(case, answer):
            held = readings.held(answer, self.until, HALF_DAY)
            fractions = {"A": 40 / 130, "B": 30 / 130, "C": 20 / 130}
            return min(value / fractions[name] / GPUS for name in fractions
                       for value in held[name][14:])

        rows, values = rows_by_variant(got, [
            ("D the day before, GPUs", lambda c, a: self.part(a, "D", -24, 0),
             lambda v: f"{v:.0f}"),
            *[(f"D {begin}–{end} h after it, ÷ its new funding",
               lambda c, a, b=begin, e=end: self.part(a, "D", b, e) / new, times)
              for begin, end in ((0, 4), (4, 12), (12, 24), (24, 72), (72, 168))],
            ("worst half-day of A, B or C after it, ÷ its new funding", worst, times)])
        return Outcome(Table(["", *got], rows), [
            ("D 12–24 h after it", values["D 12–24 h after it, ÷ its new funding", "budget"], 0.75,
             1.6),
            ("D in the days after", values["D 72–168 h after it, ÷ its new funding", "budget"],
             0.9, 1.15),
            ("worst half-day of the others", values[rows[-1][0], "budget"], 0.3, None)])

    def picture(self, got, path):
        series = [(name, readings.held(answers[0][1], self.until, 4 * HOUR)["D"])
                  for name, answers in got.items() if name != "slots"]
        chart.over_days(path, "D's GPUs", series, 4 * HOUR, "GPUs", marks=[(7, "10 → 40 shares")],
                        levels=[(GPUS * 0.1, "funded before"), (GPUS * 40 / 130, "funded after")])


def with_debug_class(workload):
    for job in workload.jobs:
        job["class"] = job["class"] or "debug"


class Deadline(Week):
    name = "deadline"
    title = "Deadline week: everybody urgent, and eight hours for everything"
    days = 7

    def make(self, seed, changed=True):
        workload, teams, _ = generate.regime("overload", NODES, seed)
        workload.cut(self.until)
        if changed:
            for job in workload.jobs:
                if job["class"] == "training":
                    job["team_priority"] = "urgent"
                    job["min_runtime"] = 8 * HOUR
        return workload, generate.budgets_of(teams)

    def variants(self):
        return [("a usual week, budget", "budget", ()), ("slots", "slots", ()),
                ("article", "article", ()), ("budget", "budget", ())]

    def answers(self, lab, seeds):
        got = super().answers(lab, seeds)
        usual = self.variants()[0][0]

        def run(seed):
            folder = lab.workload(f"week-usual-{seed}", lambda: self.make(seed, False))
            case = Case(folder, f"{NODES}x8", self.until)
            return case, lab.run(case, trace=True)

        got[usual] = lab.each(run, seeds)
        return got

    def outcome(self, got):
        rows, values = rows_by_variant(got, [
            ("debug p90", lambda c, a: a["wait_seconds"]["debug"]["p90"], span),
            ("trainings p50", lambda c, a: a["wait_seconds"]["training"]["p50"], span),
            ("trainings p90", lambda c, a: a["wait_seconds"]["training"]["p90"], span),
            ("delivered", lambda c, a: a["delivered_fraction"], percent),
            ("worst team", lambda c, a: a["teams"]["worst"]["delivered_fraction"], percent),
            ("starved half-days", lambda c, a: a["starved_fraction"], percent),
            ("goodput", lambda c, a: a["goodput_fraction"], percent)])
        return Outcome(Table(["", *got], rows), [
            ("debug p90", values["debug p90", "budget"], None, 120),
            ("delivered", values["delivered", "budget"], 0.93, None),
            ("goodput", values["goodput", "budget"], 0.95, None)])

    def picture(self, got, path):
        series = []
        for name, answers in got.items():
            case, answer = answers[0]
            series.append((name, readings.waits(case, answer, self.until, readings.is_debug)))
        chart.wait_curves(path, "Deadline week: debug jobs", series)


class Monday(Week):
    name = "monday"
    title = "The first Monday, with jobs that declare nothing"
    days = 7

    def make(self, seed):
        workload, teams, _ = generate.regime("overload", NODES, seed)
        workload.cut(self.until)
        with_debug_class(workload)
        for job in workload.jobs:
            job["min_runtime"] = ""
            job["resumable"] = ""
            job["checkpoint_seconds"] = generate.CHECKPOINT_SECONDS
        return workload, generate.budgets_of(teams)

    def variants(self):
        return [("fairtree", "fairtree", ()), ("slots", "slots", ()),
                ("budget, DefaultMinRuntime=0", "budget", ("DefaultMinRuntime=0",)),
                ("=1 h", "budget", ("DefaultMinRuntime=3600",)),
                ("=8 h", "budget", ("DefaultMinRuntime=28800",))]

    def outcome(self, got):
        rows, values = rows_by_variant(got, [
            ("occupancy", lambda c, a: a["occupancy"], percent),
            ("goodput", lambda c, a: a["goodput_fraction"], percent),
            ("runs ended before they were done", lambda c, a: a["preemptions"]["ended"],
             lambda v: f"{v:.0f}"),
            ("debug p50", lambda c, a: a["wait_seconds"]["debug"]["p50"], span),
            ("debug p90", lambda c, a: a["wait_seconds"]["debug"]["p90"], span),
            ("trainings p90", lambda c, a: a["wait_seconds"]["training"]["p90"], span),
            ("delivered", lambda c, a: a["delivered_fraction"], percent)])
        return Outcome(Table(["", *got], rows), [
            ("nothing is ended where all is free", values[rows[2][0], "budget, DefaultMinRuntime=0"],
             None, 0),
            ("goodput with 1 h", values["goodput", "=1 h"], 0.4, None)])

    def picture(self, got, path):
        series = [(name, readings.waits(answers[0][0], answers[0][1], self.until,
                                        readings.is_debug)) for name, answers in got.items()]
        chart.wait_curves(path, "Nobody declares anything: debug jobs", series)


class Morning(Week):
    name = "morning"
    title = "The morning after maintenance: all contracts start together"
    days = 1
    seeds = (1, 2, 3, 4, 5, 6)

    def make(self, seed):
        teams = generate.draw_teams(GPUS, seed)
        workload = generate.Workload()
        for team in teams:
            chance = Chance(seed, f"morning {team.name}")
            left = 3 * team.funded
            while left >= 0.7:
                gpus = generate.training_size(chance, team, 1.5 * left)
                left -= gpus
                runtime = chance.lognormal(24 * HOUR, 0.7, 9 * HOUR, 4 * DAY)
                workload.add(0, team.name, team.user(chance), gpus, runtime, 8 * HOUR, "training",
                             True)
        generate.debug_jobs(workload, teams, seed, self.until, generate.DEBUG_PER_DAY)
        return workload, generate.budgets_of(teams)

    def variants(self):
        return [("article", "article", ()),
                ("lane without headroom", "budget", ("MaxProtectedFraction=1",)),
                ("budget", "budget", ())]

    def debug_waits(self, case, answer):
        return readings.waits(case, answer, self.until, lambda job: readings.is_debug(job) and
                              int(job["submit"]) < 8 * HOUR)

    def outcome(self, got):
        rows, values = [], {}
        for part in (50, 90):
            cells = []
            for name, answers in got.items():
                waits = [wait for case, answer in answers
                         for wait in self.debug_waits(case, answer)]
                values[part, name] = readings.percentile(waits, part)
                cells.append(span(values[part, name]))
            rows.append([f"debug p{part}, first 8 h, all seeds"] + cells)
        more, _ = rows_by_variant(got, [
            ("occupancy", lambda c, a: a["occupancy"], percent),
            ("goodput", lambda c, a: a["goodput_fraction"], percent)])
        return Outcome(Table(["", *got], rows + more), [
            ("debug p90", values[90, "budget"], None, HOUR),
            ("debug p90, ÷ the article's", values[90, "budget"] / values[90, "article"], None,
             0.5)])

    def picture(self, got, path):
        series = [(name, [wait for case, answer in answers
                          for wait in self.debug_waits(case, answer)])
                  for name, answers in got.items()]
        chart.wait_curves(path, "The morning after maintenance: debug jobs of the first 8 h", series)


class HalfCluster(Week):
    name = "half"
    title = "A job of half the cluster"
    days = 10

    def make(self, seed):
        teams = named_teams({"large": 35, "small": 5, **{f"t{n}": 10 for n in range(1, 7)}})
        workload = generate.Workload()
        # Who wants half the cluster now and then does not want all of its funding always.
        steady(workload, teams[:2], seed, self.until, 0.5)
        steady(workload, teams[2:], seed, self.until, 2.5)
        generate.debug_jobs(workload, teams, seed, self.until, generate.DEBUG_PER_DAY)
        chance = Chance(seed, "half")
        for name, days in (("large", (1, 3, 5)), ("small", (4,))):
            for day in days:
                workload.add(day * DAY + chance.uniform(0, 12 * HOUR), name, f"{name}-u{day}",
                             GPUS // 2, 10 * HOUR, 8 * HOUR, f"half-{name}", True,
                             team_priority="urgent")
        return workload, generate.budgets_of(teams)

    def variants(self):
        return [("slots", "slots", ()), ("fairtree", "fairtree", ()), ("article", "article", ()),
                ("reservations only", "budget", ("MaxAssemblies=0",)), ("budget", "budget", ())]

    def outcome(self, got):
        readers = []
        for name, text in (("large", "3 of the 35 %"), ("small", "1 of the 5 %")):
            readers += [
                (f"started, of {text} budget",
                 lambda c, a, n=name: sum(
                     1 for line in a["trace"] if line["do"] == "start" and line["run"] == 1 and
                     readings.read_jobs(c)[line["job"]]["class"] == f"half-{n}"),
                 lambda v: f"{v:.1f}"),
                ("longest wait",
                 lambda c, a, n=name: a["wait_seconds"][f"half-{n}"]["max"], span)]
        readers += [
            ("assemblies granted", lambda c, a: sum(
                1 for assembly in a["assemblies"] if assembly["granted_at"] is not None),
             lambda v: f"{v:.1f}"),
            ("occupancy", lambda c, a: a["occupancy"], percent),
            ("goodput", lambda c, a: a["goodput_fraction"], percent),
            ("debug p90", lambda c, a: a["wait_seconds"]["debug"]["p90"], span)]
        rows, values = rows_by_variant(got, readers)
        return Outcome(Table(["", *got], rows), [
            ("started, 35 %", values[rows[0][0], "budget"], 3, None),
            ("occupancy", values["occupancy", "budget"], 0.97, None)])

    def picture(self, got, path):
        case, answer = got["budget"][0]
        jobs = readings.read_jobs(case)

        def of(job, budget):
            name = jobs[job]["class"]
            return {"half-large": "giants of 35 %", "half-small": "giants of 5 %"}.get(name, "rest")

        held = readings.held(answer, self.until, HOUR, of)
        chart.over_days(path, "Half-cluster jobs under budget",
                        [(name, held[name]) for name in ("rest", "giants of 35 %", "giants of 5 %")],
                        HOUR, "GPUs")


class Hog(Week):
    name = "hog"
    title = "One user with twelve week-long jobs in a shared budget"
    days = 7

    def make(self, seed):
        teams = named_teams({"A": 1, "B": 1, "C": 1, "D": 1})
        workload = generate.Workload()
        steady(workload, teams[1:], seed, self.until, 1.6)
        for _ in range(12):
            workload.add(0, "A", "hog", 8, 7 * DAY, 8 * HOUR, "hog", True)
        chance = Chance(seed, "colleagues")
        for _ in range(9 * 14):  # two a day each
            runtime = chance.lognormal(5 * HOUR, 0.6, HOUR, 12 * HOUR)
            workload.add(chance.fraction() * 6 * DAY, "A", f"colleague{1 + chance.below(9)}",
                         chance.weighted(generate.SMALL_SIZES), runtime,
                         generate.minimum_for(chance, runtime), "colleague", True)
        return workload, generate.budgets_of(teams)

    def variants(self):
        return [("slots", "slots", ()), ("budget, Sharing=pooled", "budget", ("Sharing=pooled",)),
                ("budget", "budget", ()),
                ("PreemptWithinBudget=users", "budget", ("PreemptWithinBudget=users",))]

    def outcome(self, got):
        rows, values = rows_by_variant(got, [
            ("colleagues' p50", lambda c, a: a["wait_seconds"]["colleague"]["p50"], span),
            ("colleagues' p90", lambda c, a: a["wait_seconds"]["colleague"]["p90"], span),
            ("the hog's part of A's GPU hours",
             lambda c, a: (lambda sums: sums["hog"] / (sums["hog"] + sums["colleague"]))(
                 readings.gpu_hours(a, self.until,
                                    lambda j, b, jobs=readings.read_jobs(c): jobs[j]["class"])),
             percent),
            ("A's GPU hours ÷ its funding",
             lambda c, a: readings.gpu_hours(a, self.until)["A"] / (64 * 168), times),
            ("goodput", lambda c, a: a["goodput_fraction"], percent)])
        return Outcome(Table(["", *got], rows), [
            ("colleagues' p90", values["colleagues' p90", "budget"], None, 10 * HOUR),
            ("colleagues' p90 ÷ pooled", values["colleagues' p90", "budget"] / max(
                values["colleagues' p90", "budget, Sharing=pooled"], 1), None, 0.8)])

    def picture(self, got, path):
        series = [(name, readings.waits(answers[0][0], answers[0][1], self.until,
                                        lambda job: job["class"] == "colleague"))
                  for name, answers in got.items()]
        chart.wait_curves(path, "One hog in the team: his nine colleagues' jobs", series)


class Sessions(Week):
    name = "sessions"
    title = "Two users with endless 8-GPU sessions"
    days = 14

    def make(self, seed):
        teams = named_teams({"A": 32, "B": 96, "C": 128})
        workload = generate.Workload()
        steady(workload, teams[1:], seed, self.until, 2.0)
        for user in ("session1", "session2"):
            for at in range(0, self.until, 8 * HOUR):
                workload.add(at, "A", user, 8, 8 * HOUR, 8 * HOUR, "session", False,
                             at + 10 * HOUR, interactive=1)
        generate.lines_of_work(workload, Chance(seed, "colleagues"), teams[0], 40, 0, self.until,
                               6 * HOUR, 12 * HOUR, generate.training_size, MINIMA, "colleague",
                               (0.7, 1.3))
        generate.debug_jobs(workload, teams, seed, self.until, generate.DEBUG_PER_DAY)
        return workload, generate.budgets_of(teams)

    def variants(self):
        return [("slots", "slots", ()), ("budget, Sharing=pooled", "budget", ("Sharing=pooled",)),
                ("budget", "budget", ())]

    def outcome(self, got):
        def of_class(name):
            return lambda c, a: readings.gpu_hours(
                a, self.until, lambda j, b, jobs=readings.read_jobs(c): jobs[j]["class"]
                if b == "A" else None)[name]

        rows, values = rows_by_variant(got, [
            ("sessions: GPU hours, of 5 376 asked for", of_class("session"), lambda v: f"{v:.0f}"),
            ("sessions: p90", lambda c, a: a["wait_seconds"]["session"]["p90"], span),
            ("colleagues: GPU hours", of_class("colleague"), lambda v: f"{v:.0f}"),
            ("colleagues' p50", lambda c, a: a["wait_seconds"]["colleague"]["p50"], span),
            ("A's GPU hours ÷ its funding",
             lambda c, a: readings.gpu_hours(a, self.until)["A"] / (32 * 336), times),
            ("debug p90", lambda c, a: a["wait_seconds"]["debug"]["p90"], span)])
        return Outcome(Table(["", *got], rows), [
            ("A ÷ its funding", values["A's GPU hours ÷ its funding", "budget"], 0.9, 1.15),
            ("debug p90", values["debug p90", "budget"], None, 120)])

    def picture(self, got, path):
        case, answer = got["budget"][0]
        jobs = readings.read_jobs(case)
        held = readings.held(answer, self.until, 4 * HOUR,
                             lambda job, budget: jobs[job]["class"] if budget == "A" else None)
        chart.over_days(path, "Team A under budget",
                        [(name, held[name]) for name in ("session", "colleague")], 4 * HOUR,
                        "GPUs", levels=[(32, "A is funded for")])


WEEKS = (Comeback(), Shares(), Deadline(), Monday(), Morning(), HalfCluster(), Hog(), Sessions())


def picture_path(folder, week):
    return os.path.join(folder, f"week_{week.name}.svg")
