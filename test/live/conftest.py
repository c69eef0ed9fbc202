# SPDX-License-Identifier: GPL-2.0-or-later
"""Live tests: real Slurm daemons in a private cluster of this machine.

A test asks for a cluster through the fixture `lab`, whose options are those of quickstart --start:

    @pytest.mark.lab(nodes=2, gpus=8, settings=["tranche:GraceTime=5"])
    def test_a_sentence(lab):
        job = lab.sbatch("--gpus=8", script="sleep 60", user="games")
        lab.wait_for_state(job, "RUNNING")

Tests of one file with the same options share one cluster, one after the other: each starts with an
empty queue. fresh=True asks for a cluster of one's own. Users are accounts that every Debian has.
"""

import json
import os
import re
import shlex
import subprocess
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
USERS = ("games", "man", "news", "mail")


class CommandFailed(AssertionError):
    pass


class Lab:
    """A running private cluster."""

    def __init__(self, folder, nodes=4, gpus=8, slurmdbd=False, faketime=None, stock=False,
                 settings=(), fresh=False):
        self.folder = Path(folder)
        self.nodes = nodes
        self.gpus = gpus
        self.speed = faketime or 1
        arguments = ["--start", "--nodes", str(nodes), "--gpus", str(gpus)]
        if slurmdbd:
            arguments.append("--with-slurmdbd")
        if stock:
            arguments.append("--stock")
        if faketime:
            arguments += ["--faketime", f"x{faketime}"]
        for setting in settings:
            arguments += ["--set", setting]
        self._quickstart(*arguments)
        self.root = (self.folder / "root").resolve()
        self.work = self.root / "work"
        self.environment = self._environment()

    def _quickstart(self, *arguments):
        answer = subprocess.run(
            [str(TOP / "quickstart"), *arguments], text=True, capture_output=True, timeout=600,
            env={**os.environ, "TRANCHE_LAB": str(self.folder)}, check=False)
        if answer.returncode:
            raise CommandFailed(f"quickstart {shlex.join(arguments)}:\n{answer.stderr}")
        return answer.stdout

    def _environment(self):
        script = self._quickstart("--env") + "\nenv -0"
        text = subprocess.run(["bash", "-c", script], capture_output=True, check=True,
                              env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}).stdout
        return dict(entry.split("=", 1) for entry in text.decode().split("\0") if "=" in entry)

    # --- commands -----------------------------------------------------------------------------

    def run(self, *command, user="root", check=True, stdin=None, environment=None, timeout=60):
        """Runs a command in the cluster's environment; the answer has returncode, stdout, stderr."""
        command = [str(word) for word in command]
        if user != "root":
            command = ["setpriv", f"--reuid={user}", f"--regid={group_of(user)}", "--init-groups",
                       *command]
        answer = subprocess.run(
            command, text=True, capture_output=True, timeout=timeout, input=stdin or "",
            cwd=self.work, env={**self.environment, **(environment or {})}, check=False)
        if check and answer.returncode:
            raise CommandFailed(
                f"{shlex.join(command)} gave {answer.returncode}\n{answer.stdout}{answer.stderr}")
        return answer

    def start(self, *command, user="root"):
        """Starts a command that goes on (salloc, srun) and returns its Popen."""
        command = [str(word) for word in command]
        if user != "root":
            command = ["setpriv", f"--reuid={user}", f"--regid={group_of(user)}", "--init-groups",
                       *command]
        return subprocess.Popen(command, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.work,
                                env=self.environment)

    def sbatch(self, *options, script="sleep 3600", user="root"):
        """Submits a batch script and returns its job id."""
        answer = self.submit(*options, script=script, user=user)
        return int(answer.stdout.split(";")[0])

    def submit(self, *options, script="sleep 3600", user="root", check=True):
        """As sbatch, but the whole answer: what was said to the user is in stderr."""
        if not script.startswith("#!"):
            script = "#!/bin/bash\n" + script + "\n"
        return self.run("sbatch", "--parsable", *options, user=user, stdin=script, check=check)

    # --- looking ------------------------------------------------------------------------------

    def job(self, job):
        """What scontrol shows of a job, as a dict."""
        text = self.run("scontrol", "-o", "show", "job", job).stdout
        return dict(re.findall(r"(\S+?)=(.*?)(?= \S+?=|\s*$)", text.splitlines()[0]))

    def state(self, job):
        answer = self.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T", check=False)
        return answer.stdout.strip() or "GONE"

    def output(self, job):
        """What the batch script wrote so far."""
        file = self.work / f"slurm-{job}.out"
        return file.read_text() if file.exists() else ""

    def restarts(self, job):
        return int(self.job(job)["Restarts"])

    def queue(self, *options):
        """Job ids in the order of the queue, best first."""
        text = self.run("squeue", "-h", "-S", "-p,i", "-o", "%i", *options).stdout
        return text.split()

    def json(self, *command, user="root"):
        return json.loads(self.run(*command, user=user).stdout)

    def now(self):
        """The cluster's time, epoch seconds."""
        return float(self.run("date", "+%s.%N").stdout)

    # --- waiting ------------------------------------------------------------------------------

    def wait_for(self, what, condition, seconds=20, every=0.05):
        """Polls until condition() is true, for so many real seconds; returns what it gave."""
        deadline = time.monotonic() + seconds
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() > deadline:
                pytest.fail(f"{what}: not within {seconds} s\n{self.overview()}")
            time.sleep(every)

    def wait_for_state(self, job, *states, seconds=20):
        return self.wait_for(f"job {job} becomes {' or '.join(states)}",
                             lambda: self.state(job) in states, seconds)

    def overview(self):
        text = self.run("squeue", "-o", "%.8i %.8u %.10a %.9T %.8M %.4D %.12b %.10Q %R %N",
                        check=False).stdout
        return text + self.run("sinfo", "-N", "-o", "%N %T %E", check=False).stdout

    # --- daemons ------------------------------------------------------------------------------

    def stop_daemon(self, name):
        self._quickstart("--stop-daemon", name)

    def kill_daemon(self, name):
        self._quickstart("--kill-daemon", name)

    def start_daemon(self, name):
        self._quickstart("--start-daemon", name)

    def restart_slurmctld(self):
        self.stop_daemon("slurmctld")
        self.start_daemon("slurmctld")
        self.wait_until_idle_nodes_answer()

    def wait_until_idle_nodes_answer(self):
        def answered():
            states = self.run("sinfo", "-h", "-N", "-o", "%T").stdout.split()
            return not any(state.startswith(("unk", "down")) or state.endswith("*")
                           for state in states)
        self.wait_for("all nodes answer", answered, seconds=30)

    def log(self, name="slurmctld"):
        return (self.root / "log" / f"{name}.log").read_text(errors="replace")

    def clear(self):
        """Empties the queue."""
        self.run("scancel", "--state=PENDING", check=False)
        self.run("scancel", "--state=RUNNING", "--signal=KILL", "--full", check=False)
        self.run("scancel", "--state=RUNNING", check=False)
        self.run("scancel", "--state=SUSPENDED", check=False)
        self.wait_for("the queue is empty",
                      lambda: not self.run("squeue", "-h", "-o", "%i").stdout.split())
        for file in self.work.iterdir():
            if file.is_file():
                file.unlink()

    def stop(self):
        self._quickstart("--stop")


def group_of(user):
    return subprocess.run(["id", "-g", user], text=True, capture_output=True,
                          check=True).stdout.strip()


class Labs:
    """At most one running cluster; a test with other options gets another one."""

    def __init__(self, folder):
        self.folder = folder
        self.lab = None
        self.options = None
        self.started = 0

    def get(self, module, options):
        key = (module, sorted((name, str(value)) for name, value in options.items()))
        if self.lab and (key != self.options or options.get("fresh")):
            self.stop()
        if self.lab:
            self.lab.clear()
            return self.lab
        self.started += 1
        # A failed start keeps its folder, too: its logs are the answer to "why".
        self.lab = Lab(self.folder / f"lab{self.started}", **options)
        self.options = key
        return self.lab

    def stop(self):
        if self.lab:
            lab, self.lab = self.lab, None
            lab.stop()


@pytest.fixture(scope="session")
def labs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labs")
    for part in (folder, *folder.parents[:2]):
        part.chmod(0o755)  # other users go through
    keeper = Labs(folder)
    yield keeper
    keeper.stop()


@pytest.fixture
def lab(request, labs):
    marker = request.node.get_closest_marker("lab")
    options = dict(marker.kwargs) if marker else {}
    cluster = labs.get(request.node.fspath, options)
    yield cluster
    if request.node.stash.get(FAILED, False):
        labs.stop()  # what is left of a failed test is no start for the next one


FAILED = pytest.StashKey()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        item.stash[FAILED] = True
        cluster = item.funcargs.get("lab") if hasattr(item, "funcargs") else None
        if cluster:
            for log in sorted((cluster.root / "log").iterdir()):
                lines = log.read_text(errors="replace").splitlines()
                # A daemon that has opened its log says the same on stderr, .out.
                if lines and not (log.suffix == ".out" and log.with_suffix(".log").exists()):
                    report.sections.append((f"the end of {log.name}", "\n".join(lines[-40:])))


def pytest_configure(config):
    config.addinivalue_line("markers", "lab(**options): the cluster of this test, see conftest.py")
    if os.geteuid() != 0:
        pytest.exit("live tests run jobs of several users and need root", returncode=2)
