# SPDX-License-Identifier: GPL-2.0-or-later
"""How often an expected start holds: start_times.md."""
import collections
import json
import os
import subprocess

from lab import percent, put, save, span, table

HOUR = 3600
DAY = 24 * HOUR
REGIMES = ("overload", "article", "saturated")
NODES = 32
WARM_UP = DAY  # the cluster begins empty
TOLERANCE = 15 * 60
LEADS = ((0, HOUR), (HOUR, 2 * HOUR), (2 * HOUR, 4 * HOUR), (4 * HOUR, 8 * HOUR),
         (8 * HOUR, DAY), (DAY, 2 * DAY))


def estimates(lab, regime, seed):
    """The lines of `sreplay run --estimates` that can be judged."""
    case = lab.regime(regime, NODES, seed)
    path = os.path.join(lab.out, f"estimates-{regime}-{seed}.jsonl")
    command = [lab.sreplay, "run", *lab.arguments(case), "--estimates=" + path, "--json"]
    subprocess.run(["nice", "-n", "5", *command], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    os.remove(path)
    return [line for line in lines if WARM_UP < line["at"] < case.until - 2 * DAY]


def held(line):
    return line["started_at"] is not None and line["started_at"] <= (
        line["expected_at"] + TOLERANCE)


def judged(line):
    """One that was withdrawn before its date says nothing."""
    return line["expected_at"] is not None and (
        line["started_at"] is not None or line.get("left_at", line["at"]) > (
            line["expected_at"] + TOLERANCE))


def run(lab, seeds):
    results = {}
    for regime in REGIMES:
        lines = [line for each in lab.each(lambda seed, r=regime: estimates(lab, r, seed), seeds)
                 for line in each]
        dated = [line for line in lines if line["expected_at"] is not None]
        rows = []
        for least, most in LEADS:
            those = [line for line in dated
                     if least < line["expected_at"] - line["at"] <= most and judged(line)]
            if not those:
                continue
            starts = [line for line in those if line["started_at"] is not None]
            errors = sorted(line["started_at"] - line["expected_at"] for line in starts)
            early = collections.Counter(error < -TOLERANCE for error in errors)
            rows.append([f"{span(least) if least else '0'} to {span(most)}", len(those),
                         percent(sum(map(held, those)) / len(those)),
                         percent(early[True] / max(len(errors), 1)),
                         signed(errors[len(errors) // 10]), signed(errors[len(errors) // 2]),
                         signed(errors[len(errors) * 9 // 10])])
        near = [line for line in dated
                if 0 < line["expected_at"] - line["at"] <= 2 * HOUR and judged(line)]
        share = sum(map(held, near)) / len(near)
        put("start_times.md", regime, table(
            ["expected in", "estimates", "held", "earlier than that", "error p10", "p50", "p90"],
            rows))
        results[regime] = {"estimates": len(lines), "with_a_date": len(dated) / len(lines),
                           "held_within_two_hours": share, "rows": rows}
        print(f"start times, {regime}: {len(lines)} estimates, {percent(len(dated) / len(lines))} "
              f"with a date; of those within two hours {percent(share)} held")
    save("start_times", results)
    return results


def signed(seconds):
    return ("+" if seconds > 0 else "−" if seconds < 0 else "") + span(abs(seconds))
