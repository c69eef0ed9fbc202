# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs sreplay for the experiments, keeps what it answered, and writes tables into documents."""
import concurrent.futures
import hashlib
import json
import os
import re
import statistics
import subprocess

import generate

HERE = os.path.dirname(os.path.abspath(__file__))


class Lab:
    """Workloads and answers below `out`. An answer is used again if sreplay, the workload and the
    arguments are the same."""

    def __init__(self, sreplay, out, jobs=2):
        self.sreplay = os.path.abspath(sreplay)
        self.out = os.path.abspath(out)
        self.jobs = jobs
        os.makedirs(os.path.join(self.out, "answers"), exist_ok=True)
        with open(self.sreplay, "rb") as file:
            self._program = hashlib.sha256(file.read()).hexdigest()
        self._hashes = {}
        self.written = set()

    def workload(self, name, make):
        """Writes a workload once; `make` gives it and its budgets."""
        folder = os.path.join(self.out, "workloads", name)
        if folder not in self.written:
            workload, budgets = make()
            workload.write(folder, budgets)
            self.written.add(folder)
        return folder

    def regime(self, name, nodes, seed):
        def make():
            workload, teams, _ = generate.regime(name, nodes, seed)
            return workload, generate.budgets_of(teams)

        return Case(self.workload(f"{name}-{nodes}x8-{seed}", make), f"{nodes}x8",
                    generate.REGIMES[name]["days"] * generate.DAY)

    def _hash(self, path):
        if path not in self._hashes:
            with open(path, "rb") as file:
                self._hashes[path] = hashlib.sha256(file.read()).hexdigest()
        return self._hashes[path]

    def arguments(self, case):
        words = ["--jobs=" + case.jobs, "--cluster=" + case.cluster]
        if case.budgets:
            words.append("--budgets=" + case.budgets)
        if case.events:
            words.append("--events=" + case.events)
        if case.until:
            words.append(f"--until={case.until}")
        return words

    def _answer(self, words, files, suffix, make):
        key = [self._program] + [word.replace(self.out, "") for word in words]
        key += [self._hash(path) for path in files if path]
        name = hashlib.sha256("\0".join(key).encode()).hexdigest()[:24]
        path = os.path.join(self.out, "answers", name + suffix)
        if not os.path.exists(path):
            make(path)
        return path

    def run(self, case, policy="budget", settings=(), trace=False, more=()):
        """What `sreplay run --json` answers; with `trace` also its lines under "trace"."""
        words = ["run", "--policy=" + policy, *self.arguments(case), *more]
        words += ["--set=" + setting for setting in settings]
        files = (case.jobs, case.budgets, case.events)
        kind = ".traced.json" if trace else ".json"

        def make(path):
            traced = path + ".lines"
            command = ["nice", "-n", "5", self.sreplay, *words, "--json"]
            if trace:
                command.append("--trace=" + traced)
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
            answer = json.loads(done.stdout)
            if trace:
                with open(traced) as file:
                    answer["trace"] = [json.loads(line) for line in file]
                os.remove(traced)
            with open(path + ".part", "w") as file:
                json.dump(answer, file)
            os.rename(path + ".part", path)

        with open(self._answer(words, files, kind, make)) as file:
            return json.load(file)

    def compare(self, case, policies):
        words = ["compare", "--policy=" + ",".join(policies), *self.arguments(case)]

        def make(path):
            done = subprocess.run(["nice", "-n", "5", self.sreplay, *words, "--json"],
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(words)}\n{done.stderr}")
            with open(path + ".part", "w") as file:
                file.write(done.stdout)
            os.rename(path + ".part", path)

        with open(self._answer(words, (case.jobs, case.budgets, case.events), ".json",
                               make)) as file:
            return json.load(file)

    def picture(self, case, path, policy="budget", settings=()):
        subprocess.run([self.sreplay, "run", "--policy=" + policy, *self.arguments(case),
                        *("--set=" + setting for setting in settings), "--svg=" + path, "--json"],
                       stdout=subprocess.DEVNULL, check=True)

    def each(self, call, items):
        """`call` of each of the items, two at a time; the answers in their order."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(call, items))


class Case:
    def __init__(self, folder, cluster, until, jobs="jobs.csv", budgets="budgets.json",
                 events="events.json"):
        self.jobs = os.path.join(folder, jobs)
        self.budgets = os.path.join(folder, budgets) if budgets else None
        self.events = os.path.join(folder, events) if events else None
        self.cluster = cluster
        self.until = until


def mean(values):
    values = list(values)
    return statistics.fmean(values) if values else float("nan")


def span(seconds):
    """30 s, 12 min, 4.5 h, 3.2 d"""
    if seconds is None:
        return "–"
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} d"


def percent(part, digits=1):
    return f"{100 * part:.{digits}f} %"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |",
             "| " + " | ".join(["---"] + ["---:"] * (len(head) - 1)) + " |"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def put(document, name, text):
    """Writes `text` between the marks of that name in a document of this folder."""
    path = os.path.join(HERE, document)
    with open(path) as file:
        old = file.read()
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    if begin not in old:
        old = old.rstrip("\n") + f"\n\n{begin}\n{end}\n"
    new = re.sub(re.escape(begin) + ".*?" + re.escape(end),
                 lambda _: f"{begin}\n{text}\n{end}", old, flags=re.S)
    if new != old:
        with open(path, "w") as file:
            file.write(new)


def rounded(value):
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(entry) for entry in value]
    return value


def save(name, results):
    folder = os.path.join(HERE, "results")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name + ".json"), "w") as file:
        json.dump(rounded(results), file, indent=1, sort_keys=True, ensure_ascii=False)
        file.write("\n")
