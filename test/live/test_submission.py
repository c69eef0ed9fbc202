# SPDX-License-Identifier: GPL-2.0-or-later
"""What a submission asks of its contract: accepted, told, stored, or refused in one clear line."""

import re

import pytest

from conftest import CommandFailed

contracts = pytest.mark.lab(settings=[
    "tranche:Contract=debug min-runtime=15m team-priority=high",
    "tranche:MaxMinRuntime=8:00:00",
])


@pytest.fixture
def tree(lab):
    """teama holds three shares, teamb one, broke none; each pays for the account of its name."""
    if "teama" not in lab.run("sbudget", "-n", "-P", "show", "tree").stdout:
        for name, shares in (("teama", 3), ("teamb", 1), ("broke", 0)):
            lab.run("sbudget", "-i", "add", "budget", name, f"shares={shares}", f"accounts={name}")
        lab.wait_for("submissions know the tree", lambda: "protected for" in submit(
            lab, "-A", "teama", "--gpus=1", "--min-runtime=1h", "--test-only", check=False).stderr)
    return lab


def submit(lab, *options, **more):
    return lab.submit(*options, **more)


def refused(lab, *options, script="true"):
    """What a refused submission prints, as lines."""
    before = len(lab.run("squeue", "-h", "-t", "all").stdout.splitlines())
    answer = submit(lab, *options, script=script, check=False)
    assert answer.returncode != 0, answer.stderr
    assert answer.stdout == ""
    assert len(lab.run("squeue", "-h", "-t", "all").stdout.splitlines()) == before
    return answer.stderr.strip().split("\n")


@contracts
def test_a_protected_job_is_told_what_it_costs_and_where_its_budget_stands(tree):
    answer = submit(tree, "-A", "teama", "--gpus=8", "--min-runtime=2h",
                    "--begin=now+1hour")
    assert re.fullmatch(
        r"sbatch: protected for 2 h, costs 16 GPU h; teama used \S+ of the [\d .]+ GPU h funded in "
        r"the last 7 days \(\d+\.\d\d\), \d+(st|nd|rd|th) of \d+ in the queue\n", answer.stderr)
    assert re.fullmatch(r"\d+\n", answer.stdout), "--parsable stays clean"


@contracts
def test_what_was_understood_is_repeated_and_requeue_is_implied(tree):
    answer = submit(tree, "-A", "teama", "--gpus=1", "--min-runtime=90", "--resumable",
                    "--team-priority=urgent", "--hold")
    assert "protected for 1 h 30 min, resumable, team priority urgent, costs 1.5 GPU h" in answer.stderr
    assert tree.job(int(answer.stdout))["Requeue"] == "1"


@contracts
def test_free_first_is_an_option_and_a_directive_and_is_stored(tree):
    answer = submit(tree, "-A", "teama", "--gpus=1", "--min-runtime=90", "--free-first", "--hold")
    expected = "starts free where there is room, protected for 1 h 30 min once others want its GPUs"
    assert expected in answer.stderr
    script = "#!/bin/bash\n#SBATCH -A teama --gpus=1 --min-runtime=90\n#SBATCH --free-first\nsleep 60\n"
    assert expected in submit(tree, "--hold", script=script).stderr


@contracts
def test_directives_of_the_script_and_a_named_contract_are_read(tree):
    script = "#!/bin/bash\n#SBATCH -A teama --gpus=2\n#SBATCH --contract=debug\nsleep 60\n"
    assert "protected for 15 min, team priority high, costs 0.5 GPU h" in submit(
        tree, "--hold", script=script).stderr
    assert "protected for 30 min, team priority high" in submit(
        tree, "--hold", "--min-runtime=30", script=script).stderr


@contracts
def test_a_request_in_the_environment_counts_and_is_not_handed_on(tree):
    # sbatch sends its own environment as the job's, as a REST client would write it.
    script = "env | grep ^TRANCHE_REQUEST; echo end"
    answer = tree.run("sbatch", "--parsable", "-A", "teama", "--gpus=1",
                      environment={"TRANCHE_REQUEST_MIN_RUNTIME": "20m"},
                      stdin="#!/bin/bash\n" + script + "\n")
    assert "protected for 20 min" in answer.stderr
    job = int(answer.stdout)
    tree.wait_for_state(job, "COMPLETED")
    assert tree.output(job) == "end\n"


@contracts
def test_free_and_unallocated_jobs_are_told_so(tree):
    assert ("runs free: may be ended at any second; --min-runtime=1h would protect it"
            in submit(tree, "-A", "teama", "--gpus=1", "--hold").stderr)
    assert "unallocated: budget broke has no shares" in submit(
        tree, "-A", "broke", "--gpus=1", "--min-runtime=1h", "--hold").stderr
    assert "unallocated: no budget pays" in submit(
        tree, "-A", "strangers", "--gpus=1", "--min-runtime=1h", "--hold").stderr
    assert submit(tree, "-A", "teama", "--hold").stderr == "", "a job without GPUs"


@contracts
def test_bad_syntax_is_one_line_on_the_submit_host(tree):
    for option, expected in (
            ("--min-runtime=soon", "--min-runtime: 'soon' is not a time"),
            ("--min-runtime=-5", "--min-runtime: '-5' is negative"),
            ("--min-runtime=99999999999999999999", "too long a time"),
            ("--team-priority=top", "write low, normal, high or urgent"),
            ("--budget=a b", "--budget: budget name"),
            ("--budget=" + "x" * 10000, "10000"),
            ("--contract=a\nb", "--contract: contract name 'a\\nb'")):
        lines = refused(tree, option, "--gpus=1")
        assert len(lines) == 1, lines
        assert lines[0].startswith("sbatch: error: ") and expected in lines[0], lines
        assert len(lines[0]) < 400


@contracts
def test_the_controller_refuses_what_breaks_its_rules(tree):
    gpu = ("-A", "teama", "--gpus=1")
    for options, expected in (
            (("--min-runtime=9h",), "at most 8 h here (MaxMinRuntime)"),
            (("--min-runtime=2h", "--time=60"), "above the job's time limit of 1 h"),
            (("--resumable", "--no-requeue"), "contradict each other"),
            (("--budget=nowhere",), "nowhere"),
            (("--budget=teamb",), "teamb"),
            (("--contract=none",), "this cluster has debug")):
        lines = refused(tree, *gpu, *options)
        assert expected in lines[0], lines
    # A client without the SPANK plugin is checked by the same rules.
    plain = tree.run("sbatch", *gpu, "--export=ALL,TRANCHE_REQUEST_MIN_RUNTIME=soon",
                     stdin="#!/bin/bash\ntrue\n", check=False)
    assert plain.returncode and "TRANCHE_REQUEST_MIN_RUNTIME: 'soon' is not a time" in plain.stderr


@contracts
def test_a_session_cannot_be_resumable_and_gets_its_own_default(tree):
    for command in ("salloc", "srun"):
        answer = tree.run(command, "-A", "teama", "--gpus=1", "--resumable", "true", check=False)
        assert answer.returncode != 0
        assert re.fullmatch(command + ": error: --resumable is for batch jobs.*\n", answer.stderr)
    answer = tree.run("srun", "-A", "teama", "--gpus=1", "true")
    assert "protected for 1 h," in answer.stderr


@contracts
def test_a_heterogeneous_batch_job_is_resumable_as_a_whole(tree):
    gpu = ("-A", "teama", "--gpus=1")
    script = "#!/bin/bash\n#SBATCH -A teama --gpus=1 --resumable\n#SBATCH hetjob\n" \
             "#SBATCH -A teama --gpus=1\nsleep 60\n"
    for answer in (submit(tree, *gpu, "--min-runtime=1h", "--resumable", "--hold", ":", *gpu,
                          "--hold"),
                   submit(tree, *gpu, "--min-runtime=1h", "--requeue", "--hold", ":", *gpu,
                          "--hold"),
                   submit(tree, "--hold", script=script)):
        leader = int(answer.stdout)
        parts = tree.run("squeue", "-h", "-j", leader, "-o", "%A").stdout.split()
        assert len(parts) == 2
        for part in parts:
            assert tree.job(int(part))["Requeue"] == "1"
        tree.wait_for("srank names the component as squeue does", lambda: tree.run(
            "srank", "-n", "-P", "-o", "jobid", "-j", f"{leader}+1").stdout == f"{leader}+1\n")
        assert f"{leader}+1" in tree.run("srank", "--why", f"{leader}+1").stdout
    lines = refused(tree, *gpu, "--min-runtime=1h", ":", *gpu, "--min-runtime=9h")
    assert "1: the whole job is refused: --min-runtime" in lines[1], lines


@contracts
def test_a_job_outside_the_order_is_told_no_place_in_it(tree):
    gpu = ("-A", "teama", "--gpus=1", "--min-runtime=1h")
    held = submit(tree, *gpu, "--hold").stderr
    assert "held: it has no place in the queue" in held and " of 1 in" not in held
    fixed = submit(tree, *gpu, "--priority=5", "--begin=now+1hour").stderr
    assert "; --priority of an operator stays" in fixed and "in the queue" not in fixed


@contracts
def test_a_task_of_an_array_is_shown_alone(tree):
    array = int(submit(tree, "-A", "teama", "--gpus=1", "--min-runtime=1h", "--begin=now+1hour",
                       "--array=1-5").stdout)
    tree.wait_for("the array is ranked", lambda: tree.run(
        "srank", "-n", "-P", "-o", "jobid", "-j", f"{array}_2").stdout)
    assert tree.run("srank", "-n", "-P", "-o", "jobid", "-j", f"{array}_501").stdout == ""
    assert tree.run("srank", "--why", f"{array}_4").stdout
    with pytest.raises(CommandFailed):
        tree.run("srank", "--why", f"{array}_99999")


@contracts
def test_a_submission_inside_an_allocation_does_not_inherit_its_contract(tree):
    answer = tree.run("salloc", "-A", "teama", "--gpus=1", "--min-runtime=77", "bash", "-c",
                      "sbatch -A teama --gpus=1 --hold --wrap=true && srun true")
    assert "protected for 1 h 17 min" in answer.stderr
    assert "sbatch: runs free" in answer.stderr
    batch = submit(tree, "-A", "teama", "--gpus=1", "--min-runtime=77", "--resumable",
                   script="sbatch -A teama --gpus=1 --hold --wrap=true 2>&1\nsrun echo step")
    job = int(batch.stdout)
    tree.wait_for_state(job, "COMPLETED")
    assert "runs free" in tree.output(job) and "step" in tree.output(job)


@contracts
@pytest.mark.parametrize("command", ["salloc", "srun"])
def test_a_session_that_starts_at_once_knows_its_contract(tree, command):
    told = "echo $TRANCHE_BUDGET:$TRANCHE_RUN:$TRANCHE_MIN_RUNTIME:$TRANCHE_PROTECTED_UNTIL"
    answer = tree.run(command, "-A", "teama", "--gpus=1", "--min-runtime=77", "bash", "-c", told)
    budget, run, minimum, until = answer.stdout.strip().split(":")
    assert (budget != "", run, minimum) == (True, "1", "4620")
    assert abs(int(until) - 4620 - tree.now()) < 300
    free = tree.run(command, "-A", "teama", "--gpus=1", "--min-runtime=0", "bash", "-c", told)
    assert free.stdout.strip().endswith(":1:0:0")


@contracts
def test_later_changes_cannot_break_the_contract(tree):
    job = tree.sbatch("-A", "teama", "--gpus=1", "--min-runtime=2h", "--time=3:00:00",
                      "--resumable", "--hold")
    for change in ("TimeLimit=60", "Requeue=0"):
        with pytest.raises(CommandFailed):
            tree.run("scontrol", "update", f"JobId={job}", change)
    assert tree.job(job)["TimeLimit"] == "03:00:00"
    assert tree.job(job)["Requeue"] == "1"
    tree.run("scontrol", "update", f"JobId={job}", "TimeLimit=120")
    assert f"refused a change of JobId={job}: TimeLimit=01:00:00 is below" in tree.log()


@contracts
def test_only_a_test_submits_nothing(tree):
    answer = submit(tree, "-A", "teama", "--gpus=1", "--min-runtime=9h", "--test-only", check=False)
    assert answer.returncode != 0 and "MaxMinRuntime" in answer.stderr
    answer = submit(tree, "-A", "teama", "--gpus=1", "--min-runtime=1h", "--test-only")
    assert "protected for 1 h" in answer.stderr
    assert tree.run("squeue", "-h").stdout == ""


@pytest.mark.lab(settings=["tranche:DefaultMinRuntime=require"])
def test_where_a_minimum_is_required_its_lack_is_refused_with_the_line_to_add(lab):
    lines = refused(lab, "-A", "any", "--gpus=1")
    assert "#SBATCH --min-runtime=1h" in lines[0]
    lab.submit("-A", "any", "--gpus=1", "--min-runtime=0", "--hold")
    lab.submit("-A", "any", "--hold")  # without GPUs there is nothing to protect
