# SPDX-License-Identifier: GPL-2.0-or-later
"""What people are told before it happens, on real daemons in compressed time."""

import os
import subprocess

import pytest

SPEED = 60
NOTED = "/tmp/tranche-notices-test"
PROGRAM = os.path.join(NOTED, "program")
contracts = pytest.mark.lab(faketime=SPEED, nodes=2, settings=[
    "tranche:DefaultMinRuntime=0",
    "tranche:GraceTime=60",
    "tranche:ExpressFraction=0",
    f"tranche:NotifyProgram={PROGRAM}",
])
LONG = "sleep 360000"


@pytest.fixture
def teams(lab):
    os.makedirs(NOTED, exist_ok=True)
    os.chmod(NOTED, 0o777)
    lab.wait_for("the engine answers",
                 lambda: lab.run("srank", "--health", check=False).returncode == 0)
    for name, user in (("A", "games"), ("B", "man")):
        lab.run("sbudget", "-i", "add", "budget", name, "shares=1", f"users={user}", check=False)
    lab.wait_for("submissions know the tree", lambda: "protected for" in lab.submit(
        "--gpus=1", "--min-runtime=1h", "--test-only", user="games", check=False).stderr)
    yield lab
    for name in os.listdir(NOTED):
        os.unlink(os.path.join(NOTED, name))
    os.rmdir(NOTED)


def program(body):
    with open(PROGRAM, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + body + "\n")
    os.chmod(PROGRAM, 0o755)


def noted():
    path = os.path.join(NOTED, "log")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").split("|") for line in file]


@contracts
def test_a_session_hears_15_and_5_minutes_before_its_contract_ends_once_each(teams):
    session = teams.start("salloc", "-N1", "--gpus=8", "--min-runtime=25m", "sleep", "1680",
                          user="games")
    job = teams.wait_for("the session runs", lambda: next(iter(
        teams.run("squeue", "-h", "-t", "R", "-o", "%i").stdout.split()), None))

    def minutes():
        return (teams.now() - started) / 60
    started = int(teams.run("date", "-d", teams.job(job)["StartTime"], "+%s").stdout)
    teams.wait_for("17 minutes are over", lambda: minutes() > 17, seconds=40)
    teams.restart_slurmctld()
    said = [line for line in session.communicate(timeout=40)[1].splitlines()
            if "the contract of job" in line]
    assert len(said) == 2, said
    assert f"tranche: the contract of job {job} ends in 1" in said[0]
    assert "ends in 4 min" in said[1] or "ends in 5 min" in said[1], said


@contracts
def test_who_asked_for_mail_hears_of_the_end_and_of_the_preemption(teams):
    program(f'echo "$TRANCHE_NOTICE|$TRANCHE_JOB_ID|$TRANCHE_USER|$TRANCHE_REASON|$TRANCHE_TEXT|'
            f'$(id -un)" >> {NOTED}/log')
    asks = teams.sbatch("-N1", "--gpus=8", "--min-runtime=20m", "--resumable",
                        "--mail-type=REQUEUE,END", script=LONG, user="man")
    silent = teams.sbatch("-N1", "--gpus=8", "--min-runtime=20m", "--resumable", script=LONG,
                          user="man")
    teams.wait_for_state(asks, "RUNNING")
    teams.wait_for_state(silent, "RUNNING")
    teams.wait_for("the first notice", lambda: len(noted()) == 1, seconds=40)
    assert noted()[0][:3] == ["contract-ending", str(asks), "man"]
    claimants = [teams.sbatch("-N1", "--gpus=8", "--min-runtime=5m", script=LONG, user="games")
                 for _ in range(2)]
    teams.wait_for_state(claimants[0], "RUNNING", seconds=60)
    teams.wait_for("the second notice", lambda: len(noted()) == 2, seconds=60)
    kind, job, _, reason, text, user = noted()[1]
    assert (kind, job, reason) == ("preempted", str(asks), "smaller-ratio")
    assert f"job {asks} makes room for job" in text
    assert user == teams.run("scontrol", "show", "config").stdout.split(
        "SlurmUser")[1].split("=")[1].split("(")[0].strip()


@contracts
def test_a_program_that_hangs_blocks_nothing(teams):
    program(f"echo 'hangs|' >> {NOTED}/log; exec sleep 1000")
    job = teams.sbatch("-N1", "--gpus=8", "--min-runtime=20m", "--mail-type=END", script=LONG,
                       user="man")
    teams.wait_for_state(job, "RUNNING")
    teams.wait_for("the program hangs", lambda: len(noted()) == 1, seconds=40)
    other = teams.sbatch("-N1", "--gpus=8", "--min-runtime=5m", script="true", user="games")
    teams.wait_for_state(other, "COMPLETED", "GONE")
    assert teams.json("srank", "--health", "--json")["faults"] == 0
    teams.restart_slurmctld()
    teams.wait_for("the engine answers again",
                   lambda: teams.run("srank", "--health", check=False).returncode == 0)
    assert subprocess.run(["pgrep", "-fx", "sleep 1000"], check=False,
                          capture_output=True).stdout == b"", "it went with the controller"
    assert len(noted()) == 1
