# SPDX-License-Identifier: GPL-2.0-or-later
"""Everyone can ask why, and when: records, --why, squeue's reasons and start times, the next run."""

import re
import time

import pytest

SETTINGS = [
    "tranche:DefaultMinRuntime=0",
    "tranche:GraceTime=3",
    "tranche:GraceTimeFree=3",
    "tranche:ExpressFraction=0",  # what is not about the lane
    "tranche:MaxProtectedFraction=1",
]
why_and_when = pytest.mark.lab(nodes=2, settings=SETTINGS)
SLURMS_OWN = {"Priority", "Resources", "None", "BeginTime", "(null)", ""}
# With a step, and to the file whatever comes.
SCRIPT = "echo run ${SLURM_RESTART_COUNT:-0}; srun --gres=none sleep 900 & wait; sleep 900"


@pytest.fixture
def teams(lab):
    lab.wait_for("the engine answers",
                 lambda: lab.run("srank", "--health", check=False).returncode == 0)
    have = lab.run("sbudget", "-nP", "show", "budget", "format=name").stdout.split()
    for name, user in (("A", "games"), ("B", "man")):
        if name not in have:
            lab.run("sbudget", "-i", "add", "budget", name, "shares=1", f"users={user}")
    lab.wait_for("submissions know the tree", lambda: "protected for" in lab.submit(
        "--gpus=1", "--min-runtime=1h", "--test-only", user="games", check=False).stderr)
    return lab


def why(lab, job, user="root"):
    return lab.run("srank", "--why", job, user=user).stdout


def preempted_pair(lab, contract="0:01"):
    """A job of man's whose place a job of games' has taken: (victim, claimant)."""
    lab.sbatch("-N1", "--gpus=8", "--min-runtime=8h", user="man")
    victim = lab.sbatch("-N1", "--gpus=8", f"--min-runtime={contract}", "--resumable",
                        "--open-mode=truncate", script=SCRIPT, user="man")
    lab.wait_for_state(victim, "RUNNING")
    claimant = lab.sbatch("-N1", "--gpus=8", "--min-runtime=0:30", user="games",
                          script="sleep 15")
    lab.wait_for_state(claimant, "RUNNING", seconds=120)
    return victim, claimant


@why_and_when
def test_squeue_shows_our_reason_and_a_start_time_in_nearly_every_sample(teams):
    for _ in range(2):
        teams.sbatch("-N1", "--gpus=8", "--min-runtime=2h", "--time=3:00:00", user="man")
    teams.wait_for("both run", lambda: len(teams.run(
        "squeue", "-h", "-t", "R", "-o", "%i").stdout.split()) == 2)
    waiting = [teams.sbatch("-N1", "--gpus=8", "--min-runtime=1h", "--time=1:00:00", user=user)
               for user in ("games", "man", "games")]
    held = teams.sbatch("-N1", "--gpus=8", "--min-runtime=1h", "--hold", user="games")
    later = teams.sbatch("-N1", "--gpus=8", "--begin=now+2hours", user="games")
    after = teams.sbatch("-N1", "--gpus=8", f"--dependency=afterok:{waiting[0]}", user="games")
    teams.wait_for("our reasons are there", lambda: all(
        teams.job(job)["Reason"] not in SLURMS_OWN for job in waiting))
    teams.wait_for("the starts are estimated", lambda: all(
        teams.job(job)["StartTime"] != "Unknown" for job in waiting))
    ours = starts = samples = 0
    for sample in range(240):
        if sample % 20 == 0:
            # Submissions, updates and ends have the scheduler pass.
            job = teams.sbatch("-N1", "--gpus=1", "--min-runtime=1h", user="man")
            teams.run("scancel", job)
        text = teams.run("squeue", "-h", "-t", "PD", "-o", "%i|%r|%S").stdout
        rows = dict(line.split("|", 1) for line in text.splitlines())
        for job in waiting:
            reason, start = rows[str(job)].split("|")
            samples += 1
            ours += reason not in SLURMS_OWN
            starts += start != "N/A"
        assert rows[str(held)].startswith("JobHeld")
        assert rows[str(later)].startswith("BeginTime")
        assert rows[str(after)].startswith("Dependency")
        time.sleep(0.02)
    assert samples >= 3 * 200
    assert ours >= 0.95 * samples, f"{ours} of {samples}"
    assert starts >= 0.95 * samples, f"{starts} of {samples}"
    # Held from now on: the word is Slurm's again.
    teams.run("scontrol", "hold", waiting[2])
    teams.wait_for("the hold is shown",
                   lambda: teams.job(waiting[2])["Reason"].startswith("JobHeld"))
    time.sleep(1)
    assert teams.job(waiting[2])["Reason"].startswith("JobHeld")
    # And a running job has none.
    assert teams.json("srank", "--health", "--json")["faults"] == 0


@why_and_when
def test_a_preemption_is_recorded_explained_and_told_to_the_next_run(teams):
    victim, claimant = preempted_pair(teams)
    teams.wait_for("the record is complete", lambda: teams.json(
        "sbudget", "--json", "show", "preemption", "where", f"job={victim}")["preemptions"][0]
        ["outcome"] == "started")
    record = teams.json("sbudget", "--json", "show", "preemption", "start=now-1hour",
                        "where", f"job={victim}")["preemptions"][0]
    assert record["claimant_job_id"] == claimant
    assert record["level"] == "root"
    assert record["victim_side"]["name"] == "B" and record["claimant_side"]["name"] == "A"
    for side in (record["victim_side"], record["claimant_side"]):
        assert side["faded_charge_gpu_hours"] > 0 and side["entitlement_gpu_hours"] > 0
    assert record["contract_ended_at"] <= record["warned_at"] <= record["gone_at"]
    assert record["gone_at"] <= record["claimant_started_at"]
    assert record["claimant_nodes"] == teams.job(claimant)["NodeList"] == record["nodes"]
    nothing = teams.json("sbudget", "--json", "show", "preemption", "end=now-1hour",
                         "where", f"job={victim}")
    assert nothing["preemptions"] == []
    # Its owner's view: who, where and why; and it stays with the record of the job.
    text = why(teams, victim, user="man")
    assert "was preempted" in text and f"for job {claimant} of A (games)" in text
    assert "had used less of its funding than B" in text
    assert f"preempted for job {claimant} of games" in teams.job(victim)["SystemComment"]
    assert f"makes room for job {claimant}" in teams.output(victim)
    assert f"job {victim}" in why(teams, claimant).lower()
    # The next run truncates the output and says it again, once.
    teams.wait_for("run 2", lambda: teams.state(victim) == "RUNNING", seconds=60)
    teams.wait_for("it hears why",
                   lambda: "run 1 was preempted" in teams.output(victim), seconds=30)
    output = teams.output(victim)
    assert "run 1\n" in output and "run 0\n" not in output
    assert len(re.findall("tranche: run 2: run 1 was preempted", output)) == 1
    assert f"for job {claimant} of games" in output
    # The claimant has ended; slurmctld forgets it, the ledger does not.
    teams.wait_for_state(claimant, "COMPLETED", "GONE", seconds=30)
    teams.wait_for("its end is in the ledger", lambda: "completed" in why(teams, claimant))
    assert "run 1:" in why(teams, claimant)
    teams.restart_slurmctld()
    teams.wait_for("the engine answers",
                   lambda: teams.run("srank", "--health", check=False).returncode == 0)
    assert f"for job {claimant} of A (games)" in why(teams, victim)


@why_and_when
def test_tasks_components_and_held_jobs_are_explained(teams):
    for _ in range(2):
        teams.sbatch("-N1", "--gpus=8", "--min-runtime=2h", user="man")
    held = teams.sbatch("-N1", "--gpus=8", "--min-runtime=1h", "--hold", user="games")
    array = teams.sbatch("-N1", "--gpus=8", "--min-runtime=1h", "--array=1-3", user="games")
    last = teams.sbatch("-N1", "--gpus=8", "--min-runtime=1h", user="games")
    teams.wait_for("all are ranked", lambda: teams.run(
        "srank", "--why", last, check=False).returncode == 0)
    assert f"Job {array}_2 of A (games) is pending" in why(teams, f"{array}_2")
    assert "0 run and 3 wait" in why(teams, array)
    text = why(teams, last)
    assert f"job {held}" not in text
    assert "go first" in text or "goes first" in text
    # Who could take a suspended run: its contract's clock stands still, it has begun.
    running = teams.run("squeue", "-h", "-t", "R", "-o", "%i").stdout.split()[0]
    teams.run("scontrol", "suspend", running)
    teams.wait_for("it is known", lambda: "is suspended" in why(teams, running))
    assert "clock stands still" in why(teams, running)
    teams.run("scontrol", "resume", running)
    components = teams.run("sbatch", "--parsable", "-N1", "--gpus=1", "--min-runtime=1h", ":",
                           "-N1", "--gpus=1", user="games",
                           stdin="#!/bin/bash\nsleep 60\n").stdout.split(";")[0].strip()
    teams.wait_for("the component is ranked", lambda: teams.run(
        "srank", "--why", f"{components}+1", check=False).returncode == 0)
    assert f"Job {components}+1 of A (games)" in why(teams, f"{components}+1")


@why_and_when
def test_me_and_try_say_what_one_has_and_when_more_would_start(teams):
    for _ in range(2):
        job = teams.sbatch("-N1", "--gpus=8", "--min-runtime=2h", "--time=3:00:00", user="man")
        teams.wait_for_state(job, "RUNNING")
    mine = teams.sbatch("-N1", "--gpus=8", "--min-runtime=1h", "--time=2:00:00", user="games")
    teams.wait_for("its start is expected", lambda: any(
        "expected_start_at" in row for row in teams.json("srank", "me", "--json",
                                                         user="games")["queue"]))
    me = teams.json("srank", "me", "--json", user="games")
    assert [row["budget"] for row in me["budgets"]] == ["A"]
    assert [row["job_id"] for row in me["queue"]] == [mine] and me["running"] == []
    others = teams.json("srank", "me", "--json", user="man")
    assert len(others["running"]) == 2 and others["queue"] == []
    assert all(row["protected_until"] > teams.now() for row in others["running"])
    text = teams.run("srank", "me", user="games").stdout
    assert "My budgets" in text and f"{mine}" in text and "by " in text
    # All is under contract for two hours: nothing starts sooner than that.
    asked = teams.json("srank", "--try", "-N2 --gpus-per-node=8 --min-runtime=2h", "--json",
                       user="games")
    assert asked["asked"]["gpus"] == 16 and asked["budget"] == "A"
    assert asked["asked"]["expected_start_at"] > teams.now() + 3600
    for row in asked["sooner"]:
        assert row["expected_start_at"] < asked["asked"]["expected_start_at"]
        assert row["gpus"] <= 16
    refused = teams.run("srank", "--try", "-N2 --mem=4G", user="games", check=False)
    assert refused.returncode == 2 and "--mem" in refused.stderr
    refused = teams.run("srank", "--try", "-N64 --gpus=512", user="games", check=False)
    assert refused.returncode == 1 and "can never start" in refused.stderr
    # Nothing was submitted.
    assert len(teams.run("squeue", "-h", "-o", "%i").stdout.split()) == 3
