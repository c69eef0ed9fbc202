# SPDX-License-Identifier: GPL-2.0-or-later
"""What the policy has to reach (DESIGN 5), as judgements over the answers of one run a seed."""
from lab import mean

EXIT_SECONDS = 30
TEAMS = 15


class Bar:
    """One line of DESIGN 5: a figure of each seed, what it must reach, and whether each seed must or
    their mean."""

    def __init__(self, text, figure, at_least=None, at_most=None, each=True, digits=3):
        self.text = text
        self.figure = figure
        self.at_least = at_least
        self.at_most = at_most
        self.each = each
        self.digits = digits

    def holds(self, value):
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most)

    def values(self, answers):
        return [self.figure(answer) for answer in answers]

    def met(self, answers):
        values = self.values(answers)
        return all(map(self.holds, values)) if self.each else self.holds(mean(values))


def debug_p90(answer):
    return answer["wait_seconds"]["debug"]["p90"]


def key(name):
    return lambda answer: answer[name]


def teams_at_95(answer):
    return answer["teams"]["at_least_95_percent"]


def teams_short(answer):
    """Teams below 95 %."""
    return answer["teams"]["count"] - answer["teams"]["at_least_95_percent"]


def worst_team(answer):
    return answer["teams"]["worst"]["delivered_fraction"]


ARTICLE = [
    Bar("free share .18 ± .03 (mean)", key("unallocated_fraction"), 0.15, 0.21, each=False),
    Bar("debug p90 ≤ exit + 30 s", debug_p90, at_most=EXIT_SECONDS + 30, digits=0),
    Bar("delivered ≥ .99", key("delivered_fraction"), 0.99),
    Bar("15 of 15 teams ≥ 95 %", teams_at_95, TEAMS, digits=0),
    Bar("occupancy ≥ .98", key("occupancy"), 0.98),
    Bar("goodput ≥ .88", key("goodput_fraction"), 0.88),
]
ARTICLE_SLOTS = [
    Bar("`slots`: debug p90 > 1 h", debug_p90, at_least=3601, digits=0),
]
OVERLOAD = [
    Bar("delivered ≥ .975 (mean)", key("delivered_fraction"), 0.975, each=False),
    Bar("delivered ≥ .960", key("delivered_fraction"), 0.960),
    Bar("teams ≥ 95 %: 13 of 15 (mean)", teams_at_95, 13, each=False, digits=0),
    Bar("worst team ≥ .90 (mean)", worst_team, 0.90, each=False),
    Bar("occupancy ≥ .97", key("occupancy"), 0.97),
    Bar("debug p90 ≤ exit + 30 s (mean)", debug_p90, at_most=EXIT_SECONDS + 30, each=False,
        digits=0),
    Bar("starved ≤ .10 (mean)", key("starved_fraction"), at_most=0.10, each=False),
    Bar("goodput ≥ .86", key("goodput_fraction"), 0.86),
]
SATURATED = [
    Bar("starved ≤ .02", key("starved_fraction"), at_most=0.02),
    Bar("goodput ≥ .96", key("goodput_fraction"), 0.96),
]
LARGE_OVERLOAD = [
    Bar("delivered ≥ .99", key("delivered_fraction"), 0.99),
    Bar("15 of 15 teams ≥ 95 %", teams_at_95, TEAMS, digits=0),
]
SMALL_OVERLOAD = [
    Bar("delivered ≥ .94", key("delivered_fraction"), 0.94),
    Bar("debug p90 ≤ 20 min", debug_p90, at_most=20 * 60, digits=0),
]

# By nodes of 8 GPUs, regime and policy.
BARS = [
    (32, "article", "budget", ARTICLE),
    (32, "article", "slots", ARTICLE_SLOTS),
    (32, "overload", "budget", OVERLOAD),
    (32, "saturated", "budget", SATURATED),
    (128, "overload", "budget", LARGE_OVERLOAD),
    (11, "article", "budget", ARTICLE),
    (11, "overload", "budget", SMALL_OVERLOAD),
]
