#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes a workload of the experiment: jobs.csv, budgets.json and events.json for sreplay.

    generate.py REGIME --nodes N --seed S OUT

REGIME is article, overload, saturated, bursty or drains. All chance comes from the seed; the same
seed gives the same files with every Python 3. What is drawn from what is said beside each figure
below, and in article.md under "The workload".
"""
import argparse
import csv
import json
import math
import os
import random

HOUR = 3600
DAY = 24 * HOUR
GPUS_PER_NODE = 8
TEAMS = 15
USERS_PER_TEAM = 10

# Of trainings: GPUs and how often; no larger than four times what the team is funded for.
TRAINING_SIZES = ((1, 18), (2, 14), (4, 18), (8, 26), (16, 12), (32, 8), (64, 4))
FREE_SIZES = ((1, 30), (2, 20), (4, 20), (8, 25), (16, 5))
SMALL_SIZES = ((1, 40), (2, 25), (4, 20), (8, 15))  # evaluations
DEBUG_SIZES = ((1, 1), (2, 1), (4, 1), (8, 1))  # as `sreplay --inject debug` draws them
MINIMA = ((1 * HOUR, 25), (2 * HOUR, 30), (4 * HOUR, 30), (8 * HOUR, 15))
LONG_MINIMA = ((4 * HOUR, 40), (8 * HOUR, 60))  # of the saturated weeks

DEBUG_MINIMUM = 15 * 60
DEBUG_PER_DAY = 120
EXIT_SECONDS = 30
RESTART_SECONDS = 300
CHECKPOINT_SECONDS = 1800

# Bursts of a team, and what is between them.
ON_MEAN = 1.5 * DAY
OFF_MEAN = 2.0 * DAY

# base, burst, needs, lines: see allocated_lines(), lines_of_work() and saturated_lines(); free: GPUs
# of lines of free work, as a part of the cluster; debug: jobs a day.
REGIMES = {
    "article": {"days": 14, "base": 0.45, "burst": 0.75, "needs": (0.35, 1.0), "free": 1.75,
                "debug": DEBUG_PER_DAY},
    "overload": {"days": 14, "base": 1.35, "burst": 0.75, "needs": (0.7, 1.3), "free": 0.3,
                 "debug": DEBUG_PER_DAY},
    "saturated": {"days": 42, "lines": 2.2, "needs": (0.7, 1.3), "free": 0.0, "debug": 0},
}
# One team wants its week in half a week, the others are those of the article's regime.
REGIMES["bursty"] = REGIMES["article"]
# A month of the overload, with sick nodes.
REGIMES["drains"] = {**REGIMES["overload"], "days": 30, "sick": 30}

COLUMNS = ("job_id", "submit", "account", "user", "gpus", "min_runtime", "resumable", "runtime",
           "time_limit", "class", "exit_seconds", "restart_seconds", "checkpoint_seconds",
           "team_priority", "free_first", "parent", "interactive")


class Chance:
    """Draws for one purpose, apart from all others of the same seed."""

    def __init__(self, seed, purpose):
        self._random = random.Random(f"{seed}/{purpose}")

    def fraction(self):
        return self._random.random()

    def uniform(self, least, most):
        return least + (most - least) * self.fraction()

    def below(self, bound):
        return int(self.fraction() * bound)

    def exponential(self, mean):
        return -mean * math.log(1.0 - self.fraction())

    def lognormal(self, median, sigma, least, most):
        normal = math.sqrt(-2.0 * math.log(1.0 - self.fraction())) * math.cos(
            2.0 * math.pi * self.fraction())
        return min(max(median * math.exp(sigma * normal), least), most)

    def weighted(self, table):
        at = self.fraction() * sum(weight for _, weight in table)
        for value, weight in table:
            at -= weight
            if at < 0:
                return value
        return table[-1][0]


class Workload:
    def __init__(self):
        self.jobs = []
        self.events = []
        self.carried = {}  # by class, GPU seconds, see lines_of_work()

    def add(self, at, account, user, gpus, runtime, minimum, wait_class, resumable,
            withdrawn_at=None, **more):
        job = {"submit": int(at), "account": account, "user": user, "gpus": gpus,
               "runtime": max(int(runtime), 60), "min_runtime": int(minimum),
               "class": wait_class, "resumable": int(resumable), "exit_seconds": EXIT_SECONDS,
               "restart_seconds": RESTART_SECONDS,
               "checkpoint_seconds": CHECKPOINT_SECONDS if resumable else 0,
               "withdrawn_at": None if withdrawn_at is None else int(withdrawn_at)}
        # Half as much again as the work, and a whole hour: people round up.
        job["time_limit"] = (int(1.5 * job["runtime"]) // HOUR + 1) * HOUR
        job.update(more)
        self.jobs.append(job)

    def cut(self, until):
        """Leaves out what is submitted later."""
        self.jobs = [job for job in self.jobs if job["submit"] < until]

    def write(self, folder, budgets):
        os.makedirs(folder, exist_ok=True)
        self.jobs.sort(key=lambda job: job["submit"])
        events = list(self.events)
        with open(os.path.join(folder, "jobs.csv"), "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, restval="", extrasaction="ignore",
                                    lineterminator="\n")
            writer.writeheader()
            for number, job in enumerate(self.jobs):
                job["job_id"] = f"j{number + 1}"
                writer.writerow(job)
                if job["withdrawn_at"] is not None:
                    events.append({"at": job["withdrawn_at"], "do": "cancel",
                                   "job": job["job_id"]})
        events.sort(key=lambda event: event["at"])
        with open(os.path.join(folder, "budgets.json"), "w") as file:
            json.dump({"version": 1, "budgets": budgets}, file, indent=1)
        with open(os.path.join(folder, "events.json"), "w") as file:
            json.dump(events, file, separators=(",", ":"))


class Team:
    def __init__(self, name, shares, funded):
        self.name = name
        self.shares = shares
        self.funded = funded  # GPUs

    def user(self, chance):
        return f"{self.name}-u{chance.below(USERS_PER_TEAM)}"


def draw_teams(gpus, seed):
    """15 teams of 2 to 6 shares, each number as likely."""
    chance = Chance(seed, "teams")
    shares = [2 + chance.below(5) for _ in range(TEAMS)]
    return [Team(f"t{number + 1:02}", share, gpus * share / sum(shares))
            for number, share in enumerate(shares)]


def budgets_of(teams):
    return [{"name": team.name, "parent": "root", "shares": team.shares, "accounts": [team.name]}
            for team in teams]


def bursts(chance, until, on_mean, off_mean):
    """Stretches in which a team works: exponential lengths, at least six hours of work; whether it
    works at zero is drawn."""
    at = 0.0
    working = chance.fraction() < on_mean / (on_mean + off_mean)
    while at < until:
        length = max(chance.exponential(on_mean if working else off_mean), 6 * HOUR)
        if working:
            yield at, min(at + length, until)
        at += length
        working = not working


def training_size(chance, team, most=math.inf, sizes=TRAINING_SIZES):
    most = min(max(4 * team.funded, 8), most)
    return chance.weighted([(gpus, weight) for gpus, weight in sizes if gpus <= most])


def free_size(chance, team, most=math.inf):
    return training_size(chance, team, most, FREE_SIZES)


def minimum_for(chance, runtime, table=MINIMA):
    """A contract of hours, but not longer than the job, in half hours."""
    half_hour = HOUR // 2
    return min(chance.weighted(table), max(int(runtime) // half_hour * half_hour, half_hour))


def add_evaluation(workload, chance, team, at):
    """1 to 8 GPUs for 10 minutes to 6 hours, cannot resume, asks for as long as it takes in half
    hours; if it has not begun by then, it is withdrawn after twelve hours."""
    runtime = chance.lognormal(0.75 * HOUR, 0.9, 600, 6 * HOUR)
    gpus = chance.weighted(SMALL_SIZES)
    minimum = (int(runtime) // 1800 + 1) * 1800
    workload.add(at, team.name, team.user(chance), gpus, runtime, minimum, "evaluation", False,
                 at + 12 * HOUR + minimum)
    return gpus * runtime


def lines_of_work(workload, chance, team, gpus, begin, end, stagger, median, draw_size, minima,
                  wait_class, needs, evaluations=0.0):
    """Lines of work of one team that together want `gpus` from `begin` to `end`: each keeps one
    training in the queue or running; when its time is over it is withdrawn, however far it came,
    and the next version of it is submitted. So demand is bounded without knowing what starts.
    `needs`: the work of a training, as a part of that time, lies between these."""
    # What the last one was too large or too small for is made up for by the next that are drawn.
    left = gpus + workload.carried.get(wait_class, 0.0) / (end - begin)
    line = 0
    while left >= 0.7:
        size = draw_size(chance, team, 1.5 * left)
        left -= size
        line += 1
        user = team.user(chance)
        at = begin + chance.uniform(0, min(stagger, (end - begin) / 2))
        first = begin == 0
        while at < end:
            stay = chance.lognormal(median, 0.9, 4 * HOUR, 8 * DAY)
            if first:  # the first one is under way already
                stay *= chance.uniform(0.2, 1.0)
                first = False
            leaves_at = min(at + stay, end)
            runtime = (leaves_at - at) * chance.uniform(*needs)
            minimum = minimum_for(chance, runtime, minima) if minima else 0
            workload.add(at, team.name, user, size, runtime, minimum, wait_class, True, leaves_at,
                         parent=f"{team.name} {wait_class} {int(begin)} {line}")
            at = leaves_at
    workload.carried[wait_class] = left * (end - begin)
    if evaluations:
        work = evaluations * gpus * (end - begin)
        while work > 0:
            work -= add_evaluation(workload, chance, team, chance.uniform(begin, end))


def allocated_lines(workload, teams, seed, until, base, burst, needs, evaluations=0.04):
    """What each team keeps in the queue or running: `base` times its funding always, and in its
    bursts so much more that it is `burst` times its funding on average; a team's wishes are 0.7 to
    1.3 times that. Beside them evaluations, a part of that in GPU time."""
    wishes = [Chance(seed, f"wish {team.name}").uniform(0.7, 1.3) for team in teams]
    mean = sum(wish * team.funded for wish, team in zip(wishes, teams)) / sum(
        team.funded for team in teams)
    wanted = [wish / mean * team.funded for wish, team in zip(wishes, teams)]
    stretches = [list(bursts(Chance(seed, f"bursts {team.name}"), until, ON_MEAN, OFF_MEAN))
                 for team in teams]
    # The seed decides who bursts when, not how much all of them want.
    in_bursts = sum(gpus * (end - begin)
                    for gpus, own in zip(wanted, stretches) for begin, end in own)
    scale = burst * sum(wanted) * until / in_bursts
    for gpus, team in zip(wanted, teams):
        lines_of_work(workload, Chance(seed, f"base {team.name}"), team, base * gpus, 0, until,
                      6 * HOUR, 12 * HOUR, training_size, MINIMA, "training", needs, evaluations)
    for gpus, own, team in zip(wanted, stretches, teams):
        chance = Chance(seed, f"lines {team.name}")
        for begin, end in own:
            lines_of_work(workload, chance, team, scale * gpus, begin, end, 6 * HOUR, 12 * HOUR,
                          training_size, MINIMA, "training", needs, evaluations)


def saturated_lines(workload, teams, seed, until, part, needs):
    """Every team wants `part` times its funding all the time, in trainings of days."""
    for team in teams:
        chance = Chance(seed, f"lines {team.name}")
        lines_of_work(workload, chance, team, part * team.funded, 0, until, 2 * DAY, 60 * HOUR,
                      training_size, LONG_MINIMA, "training", needs)


def free_lines(workload, teams, seed, until, part):
    for team in teams:
        chance = Chance(seed, f"free {team.name}")
        lines_of_work(workload, chance, team, part * team.funded, 0, until, 2 * DAY, 24 * HOUR,
                      free_size, None, "free", (0.35, 1.0))


def half_weeks(workload, team, seed, until):
    """A team that wants a week's funding in the first half of each week: twice what it is funded
    for, in trainings submitted as the former ones would be done; what is not done half a day after
    that is withdrawn."""
    chance = Chance(seed, f"half weeks {team.name}")
    for begin in range(0, int(until), 7 * DAY):
        end = begin + 7 * DAY // 2
        left = 2 * team.funded
        while left > 0.01:
            gpus = training_size(chance, team, max(1.5 * left, 1))
            # The last one is there for a part of the time only.
            stop = begin + (end - begin) * min(1.0, left / gpus)
            left -= gpus
            user = team.user(chance)
            at = float(begin)
            while at < stop:
                runtime = min(chance.lognormal(12 * HOUR, 0.7, 2 * HOUR, 2 * DAY), stop - at)
                workload.add(at, team.name, user, gpus, runtime, minimum_for(chance, runtime),
                             "training", True, end + DAY // 2)
                at += runtime


def sick_nodes(workload, nodes, seed, until, count):
    """Drains at instants and of nodes that are all alike; a node is back a day later."""
    chance = Chance(seed, "sick nodes")
    out = {}
    for at in sorted(chance.fraction() * (until - DAY) for _ in range(count)):
        node = 1 + chance.below(nodes)
        while out.get(node, -2 * DAY) > at - 2 * DAY:
            node = 1 + chance.below(nodes)
        out[node] = at
        workload.events.append({"at": int(at), "do": "drain", "node": f"n{node}",
                                "reason": "gpu-health:drawn"})
        workload.events.append({"at": int(at) + DAY, "do": "undrain", "node": f"n{node}"})


def debug_jobs(workload, teams, seed, until, per_day):
    """At instants that are all alike, of users all alike: 1, 2, 4 or 8 GPUs, a minimum of 15
    minutes, a runtime from an eighth of it to all of it."""
    chance = Chance(seed, "debug")
    for day in range(int(until // DAY)):
        for _ in range(per_day):
            team = teams[chance.below(len(teams))]
            workload.add(day * DAY + chance.fraction() * DAY, team.name, team.user(chance),
                         chance.weighted(DEBUG_SIZES), DEBUG_MINIMUM * chance.uniform(0.125, 1.0),
                         DEBUG_MINIMUM, "", False)


def regime(name, nodes, seed):
    """The workload of a regime, its teams, and the seconds it lasts."""
    gpus = nodes * GPUS_PER_NODE
    figures = REGIMES[name]
    until = figures["days"] * DAY
    teams = draw_teams(gpus, seed)
    workload = Workload()
    others = teams
    if name == "bursty":
        half_weeks(workload, teams[0], seed, until)
        others = teams[1:]
    if "base" in figures:
        # The debug jobs are a part of it: 3.75 GPUs and 8.4 minutes each.
        debug = figures["debug"] * 3.75 * 8.4 / (24 * 60) / gpus
        allocated_lines(workload, others, seed, until, figures["base"] - debug, figures["burst"],
                        figures["needs"])
    else:
        saturated_lines(workload, others, seed, until, figures["lines"], figures["needs"])
    if figures["free"]:
        free_lines(workload, others, seed, until, figures["free"])
    if figures["debug"]:
        debug_jobs(workload, teams, seed, until, figures["debug"])
    if "sick" in figures:
        sick_nodes(workload, nodes, seed, until, figures["sick"])
    return workload, teams, until


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("regime", choices=sorted(REGIMES))
    parser.add_argument("--nodes", type=int, default=32, help="of 8 GPUs each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("out")
    arguments = parser.parse_args()
    workload, teams, _ = regime(arguments.regime, arguments.nodes, arguments.seed)
    workload.write(arguments.out, budgets_of(teams))


if __name__ == "__main__":
    main()
