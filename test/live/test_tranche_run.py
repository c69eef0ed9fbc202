# SPDX-License-Identifier: GPL-2.0-or-later
"""tranche-run inside the grace, on real daemons in real time."""

import pytest

contracts = pytest.mark.lab(nodes=2, settings=[
    "tranche:DefaultMinRuntime=0",
    "tranche:GraceTime=20",
    "tranche:ExpressFraction=0",
])
# Runs on until it is told to save, and then too.
PROGRAM = ('trap "echo saving; touch saved-$SLURM_JOB_ID-$SLURM_PROCID" USR1; echo run $TRANCHE_RUN; '
           'while :; do sleep 0.1; done')
ASK = ('echo warned $TRANCHE_NOTICE; kill -USR1 $TRANCHE_PROGRAM_PID; sleep 1; '
       'sbudget job $SLURM_JOB_ID checkpointed; echo all saved')


@pytest.fixture
def teams(lab):
    lab.wait_for("the engine answers",
                 lambda: lab.run("srank", "--health", check=False).returncode == 0)
    for name, user in (("A", "games"), ("B", "man")):
        lab.run("sbudget", "-i", "add", "budget", name, "shares=1", f"users={user}", check=False)
    lab.wait_for("submissions know the tree", lambda: "protected for" in lab.submit(
        "--gpus=1", "--min-runtime=1h", "--test-only", user="games", check=False).stderr)
    return lab


def wrapped(command, program, *options):
    words = " ".join(options)
    return f"tranche-run {words} --on-preempt='{command}' sh -c '{program}'"


def victim(lab, script, *options):
    """A run whose contract is over after a second, on node g1, which another job wants then."""
    job = lab.sbatch("-N1", "-w", "g1", "--gpus=8", "--min-runtime=0:01", "--resumable",
                     "--open-mode=append", *options, script=script, user="man")
    lab.wait_for_state(job, "RUNNING")
    lab.wait_for("the program is up", lambda: "run 1" in lab.output(job))
    return job


def take(lab):
    claimant = lab.sbatch("-N1", "-w", "g1", "--gpus=8", "--min-runtime=0:01", script="sleep 300",
                          user="games")
    lab.wait_for_state(claimant, "RUNNING", seconds=30)
    return claimant


@contracts
def test_in_a_step_the_command_runs_once_in_the_grace_and_the_job_comes_back(teams):
    job = victim(teams, "srun --kill-on-bad-exit=1 " + wrapped(ASK, PROGRAM, "-k1", "--first-task"),
                 "-n2")
    began = teams.now()
    take(teams)
    assert teams.now() - began < 19, "the room is free before the grace is over"
    said = teams.output(job)
    assert said.count("warned preempted") == 1 and said.count("saving") >= 1
    assert "Noted." in said and said.count("all saved") == 1
    assert teams.restarts(job) == 1


@contracts
def test_in_a_plain_batch_script_with_signal_b(teams):
    job = victim(teams, "exec " + wrapped(ASK, PROGRAM, "-k1"), "--signal=B:TERM")
    take(teams)
    said = teams.output(job)
    assert said.count("warned preempted") == 1 and "saving" in said and "Noted." in said
    assert teams.restarts(job) == 1


@contracts
def test_in_a_task_of_an_array_that_speaks_for_itself_alone(teams):
    array = teams.sbatch("--array=0-1", "-N1", "--gpus=8", "--min-runtime=0:01", "--resumable",
                         "--output=slurm-%A_%a.out", script="srun " + wrapped(ASK, PROGRAM, "-k1"),
                         user="man")
    teams.wait_for("both tasks run", lambda: teams.run(
        "squeue", "-h", "-r", "-t", "R", "-o", "%K").stdout.split() == ["0", "1"]
        or len(teams.run("squeue", "-h", "-r", "-t", "R", "-o", "%K").stdout.split()) == 2)
    teams.wait_for("both are up", lambda: all(
        "run 1" in teams.output(f"{array}_{task}") for task in (0, 1)))
    claimant = teams.sbatch("-N1", "--gpus=8", "--min-runtime=0:01", script="sleep 300",
                            user="games")
    teams.wait_for_state(claimant, "RUNNING", seconds=30)
    warned = [task for task in (0, 1) if "warned" in teams.output(f"{array}_{task}")]
    assert len(warned) == 1
    assert "Noted." in teams.output(f"{array}_{warned[0]}")
    running = teams.json("srank", "--running", "--json")["jobs"]
    others = [job for job in running if job.get("array_job_id") == array]
    assert others and all("checkpointed_at" not in job for job in others)


@contracts
def test_the_exit_code_of_the_program_is_the_steps(teams):
    answer = teams.run("srun", "-N1", "--gpus=1", "--min-runtime=5", "tranche-run",
                       "--on-preempt=true", "sh", "-c", "exit 9", user="games", check=False)
    assert answer.returncode == 9
