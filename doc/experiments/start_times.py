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
LARGE_NODES = 128
WARM_UP = DAY  # the cluster begins empty
TOLERANCE = 15 * 60
LEADS = ((0, HOUR), (HOUR, 2 * HOUR), (2 * HOUR, 4 * HOUR), (4 * HOUR, 8 * HOUR),
         (8 * HOUR, DAY), (DAY, 2 * DAY))
BAR_LEAD = 2 * HOUR
BAR = 0.80


def estimates(lab, regime, nodes, seed):
    """The lines of `sreplay run --estimates`, without the begin and the end."""
    case = lab.regime(regime, nodes, seed)
    path = os.path.join(lab.out, f"estimates-{regime}-{nodes}-{seed}.jsonl")
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


def judged(lines, least, most):
    """Those dated that far ahead. One that was withdrawn before its date says nothing."""
    return [line for line in lines
            if line["expected_at"] is not None
            and least < line["expected_at"] - line["at"] <= most
            and (line["started_at"] is not None or
                 line.get("left_at", line["at"]) > line["expected_at"] + TOLERANCE)]


def share_held(lines, least, most):
    those = judged(lines, least, most)
    return sum(map(held, those)) / len(those)


def rows_of(lines):
    rows = []
    for least, most in LEADS:
        those = judged(lines, least, most)
        errors = sorted(line["started_at"] - line["expected_at"] for line in those
                        if line["started_at"] is not None)
        if not errors:
            continue
        early = collections.Counter(error < -TOLERANCE for error in errors)
        rows.append([f"{span(least) if least else '0'} to {span(most)}", len(those),
                     percent(share_held(lines, least, most)), percent(early[True] / len(errors)),
                     *(signed(errors[len(errors) * part // 10]) for part in (1, 5, 9))])
    return rows


def run(lab, seeds):
    results = {}
    cases = [(regime, regime, NODES, seeds) for regime in REGIMES]
    cases.append(("overload_1024", "overload", LARGE_NODES, seeds[:1]))
    for name, regime, nodes, of in cases:
        lines = [line for each in lab.each(
            lambda seed, r=regime, n=nodes: estimates(lab, r, n, seed), of) for line in each]
        dated = sum(line["expected_at"] is not None for line in lines) / len(lines)
        share = share_held(lines, 0, BAR_LEAD)
        rows = rows_of(lines)
        put("start_times.md", name, f"{len(lines)} estimates, {percent(dated)} with a date; of "
            f"those dated within two hours **{percent(share)}** held.\n\n" + table(
                ["expected in", "estimates", "held", "earlier than that", "error p10", "p50",
                 "p90"], rows))
        results[name] = {"estimates": len(lines), "with_a_date": dated,
                         "held_within_two_hours": share, "rows": rows}
        print(f"start times, {name}: of those within two hours {percent(share)} held")
    save("start_times", results)
    return results


def signed(seconds):
    return ("+" if seconds > 0 else "−" if seconds < 0 else "") + span(abs(seconds))
