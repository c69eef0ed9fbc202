# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures that sreplay's answer does not have, from its trace and the jobs."""
import collections
import csv
import functools
import json


@functools.lru_cache(maxsize=64)
def _read_jobs(path):
    with open(path) as file:
        return {job["job_id"]: job for job in csv.DictReader(file)}


def read_jobs(case):
    return _read_jobs(case.jobs)


def segments(answer, until):
    """(job, budget, kind, express, gpus, begin, end) of all stays in the trace."""
    running = {}
    for line in answer["trace"]:
        if line["do"] in ("start", "turn"):
            if line["job"] in running:  # it turned
                begun = running.pop(line["job"])
                yield (begun["job"], begun["budget"], begun["kind"], begun["express"],
                       begun["gpus"], begun["at"], line["at"])
            running[line["job"]] = line
        elif line["do"] == "end" and line["job"] in running:
            begun = running.pop(line["job"])
            yield (begun["job"], begun["budget"], begun["kind"], begun["express"], begun["gpus"],
                   begun["at"], min(line["at"], until))
    for begun in running.values():
        yield (begun["job"], begun["budget"], begun["kind"], begun["express"], begun["gpus"],
               begun["at"], until)


def held(answer, until, bin_seconds, of=None, kinds=("allocated", "unallocated")):
    """Mean GPUs in each stretch, by `of(job, budget)`: by budget unless said."""
    count = -(-until // bin_seconds)
    sums = collections.defaultdict(lambda: [0.0] * count)
    for job, budget, kind, _, gpus, begin, end in segments(answer, until):
        if kind not in kinds:
            continue
        name = budget if of is None else of(job, budget)
        if name is None:
            continue
        for number in range(begin // bin_seconds, min(-(-end // bin_seconds), count)):
            low = max(begin, number * bin_seconds)
            high = min(end, (number + 1) * bin_seconds)
            sums[name][number] += gpus * max(high - low, 0) / bin_seconds
    return sums


def gpu_hours(answer, until, of=None, kinds=("allocated", "unallocated")):
    sums = collections.Counter()
    for job, budget, kind, _, gpus, begin, end in segments(answer, until):
        if kind in kinds:
            sums[budget if of is None else of(job, budget)] += gpus * (end - begin) / 3600
    return sums


def waits(case, answer, until, wanted, withdrawn=None):
    """Seconds until the first start of the jobs that `wanted(job)` names; who never started waits
    until it was withdrawn or the end."""
    first = {}
    for line in answer["trace"]:
        if line["do"] == "start":
            first.setdefault(line["job"], line["at"])
    if withdrawn is None:
        withdrawn = cancelled(case)
    out = []
    for name, job in read_jobs(case).items():
        submit = int(job["submit"])
        if submit < until and wanted(job):
            end = first.get(name, min(withdrawn.get(name, until), until))
            out.append(end - submit)
    return out


def cancelled(case):
    with open(case.events) as file:
        return {event["job"]: event["at"] for event in json.load(file) if event["do"] == "cancel"}


def percentile(values, part):
    values = sorted(values)
    if not values:
        return None
    return values[max(-(-len(values) * part // 100) - 1, 0)]


def is_debug(job):
    return job["class"] in ("", "debug")
