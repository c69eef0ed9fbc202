# SPDX-License-Identifier: GPL-2.0-or-later
"""The main path on real daemons: contracts to the second, preemption, requeue, order, restarts.

All clusters here run in compressed time: a minute of the cluster is a second of ours.
"""

import re

import pytest

SPEED = 60
SETTINGS = [
    "tranche:DefaultMinRuntime=0",
    "tranche:GraceTime=60",
    "tranche:GraceTimeFree=10",
    "tranche:ExpressFraction=0",  # what is not about the lane
]
contracts = pytest.mark.lab(faketime=SPEED, settings=SETTINGS)

# Two equal budgets of games and man; news has one without shares; mail none.
TREE = {
    "A": {"shares": 1, "users": "games"},
    "B": {"shares": 1, "users": "man"},
    "Z": {"shares": 0, "users": "news"},
}
LONG = "sleep 360000"


def budgets_of(lab, user="root"):
    shown = lab.json("sbudget", "--json", "show", "budget", user=user)
    return {budget["name"]: budget for budget in shown["budgets"]}


def fund(lab, tree):
    """Gives the cluster this tree, whatever it had."""
    lab.wait_for("the engine answers",
                 lambda: lab.run("srank", "--health", check=False).returncode == 0)
    have = budgets_of(lab)
    for name in list(have):
        if name not in tree and name != "root":
            lab.run("sbudget", "-i", "delete", "budget", name)
    for name, keys in tree.items():
        words = [f"{key}={value}" for key, value in keys.items()]
        if name in have:
            lab.run("sbudget", "-i", "modify", "budget", "where", f"name={name}", "set", *words,
                    check=False)
        else:
            lab.run("sbudget", "-i", "add", "budget", name, *words)
    lab.wait_for("submissions know the tree", lambda: "protected for" in lab.submit(
        "--gpus=1", "--min-runtime=1h", "--test-only", user="games", check=False).stderr)


@pytest.fixture
def two_teams(lab):
    fund(lab, TREE)
    return lab


def epoch(lab, text):
    """An instant that Slurm printed, in epoch seconds."""
    return int(lab.run("date", "-d", text, "+%s").stdout)


def fill(lab, count, *options, user):
    """That many 8-GPU jobs, all running."""
    jobs = [lab.sbatch("-N1", "--gpus=8", *options, script=LONG, user=user) for _ in range(count)]
    for job in jobs:
        lab.wait_for_state(job, "RUNNING")
    return jobs


def tasks_apart(lab, array):
    """How many pending tasks of an array have records of their own."""
    return len({job["array_task_id"] for job in lab.json("srank", "--json")["jobs"]
                if job.get("array_job_id") == array and "array_task_id" in job})


@contracts
def test_both_plugins_are_in_force(two_teams):
    config = two_teams.run("scontrol", "show", "config").stdout
    assert re.search(r"^PriorityType\s+= priority/budget$", config, re.M)
    assert re.search(r"^PreemptType\s+= preempt/contract$", config, re.M)
    assert re.search(r"^JobSubmitPlugins\s+= contract$", config, re.M)
    health = two_teams.json("srank", "--health", "--json")
    assert health["faults"] == 0
    two_teams.run("sprio", "-l")
    two_teams.run("sshare", "-a")


@contracts
def test_a_contract_is_kept_to_the_second_and_ends_with_no_other_event(two_teams):
    """B holds all nodes under contracts of 10 minutes; A's job waits for them, not longer."""
    victims = fill(two_teams, 4, "--min-runtime=10m", "--resumable", user="man")
    claimant = two_teams.sbatch("-N1", "--gpus=8", "--min-runtime=5m", user="games", script=LONG)
    two_teams.wait_for_state(claimant, "RUNNING", seconds=40)
    record = two_teams.json("sbudget", "--json", "show", "preemption")["preemptions"][0]
    assert record["claimant_job_id"] == claimant
    assert record["victim_job_id"] in victims
    # Warned when the contract was over, and at once.
    assert 0 <= record["warned_at"] - record["contract_ended_at"] <= SPEED
    # The victim was told nothing and went at the end of its grace: 60 s, then its exit.
    assert 60 <= record["gone_at"] - record["warned_at"] <= 120
    assert record["claimant_started_at"] - record["warned_at"] <= 180
    victim = record["victim_job_id"]
    # The same job, its place kept, no penalty: pending and eligible, or running again.
    assert two_teams.restarts(victim) == 1
    two_teams.wait_for("the victim is eligible again",
                       lambda: "BeginTime" not in two_teams.job(victim)["Reason"])
    assert two_teams.state(victim) == "PENDING"
    others = [job for job in victims if job != victim]
    assert [two_teams.state(job) for job in others] == ["RUNNING"] * 3
    assert [two_teams.restarts(job) for job in others] == [0] * 3


@contracts
def test_a_requeued_job_comes_back_under_its_id_with_a_new_contract(two_teams):
    fill(two_teams, 3, "--min-runtime=8h", "--resumable", user="man")
    script = "env | grep ^TRANCHE_; echo run $SLURM_RESTART_COUNT; " + LONG
    victim = two_teams.sbatch("-N1", "--gpus=8", "--min-runtime=10m", "--resumable",
                              script=script, user="man")
    two_teams.wait_for_state(victim, "RUNNING")
    claimant = two_teams.sbatch("-N1", "--gpus=8", "--min-runtime=20m", user="games",
                                script="sleep 1300")
    two_teams.wait_for_state(claimant, "RUNNING", seconds=40)
    two_teams.wait_for_state(victim, "PENDING")
    two_teams.wait_for_state(victim, "RUNNING", seconds=60)
    two_teams.wait_for("it wrote what it knows", lambda: "run 1" in two_teams.output(victim))
    output = two_teams.output(victim)
    assert "TRANCHE_BUDGET=B" in output
    assert "TRANCHE_RUN=2" in output
    assert "TRANCHE_MIN_RUNTIME=600" in output
    job = two_teams.job(victim)
    start = epoch(two_teams, job["StartTime"])
    until = int(re.findall(r"TRANCHE_PROTECTED_UNTIL=(\d+)", output)[-1])
    assert abs(until - start - 600) <= SPEED


@contracts
def test_free_work_costs_nothing_and_yields_to_funded_work_at_once(two_teams):
    free = fill(two_teams, 4, "--resumable", user="man")
    begun = two_teams.now()
    claimant = two_teams.sbatch("-N1", "--gpus=8", "--min-runtime=1h", user="games", script=LONG)
    two_teams.wait_for_state(claimant, "RUNNING")
    assert two_teams.now() - begun < 10 + 120  # its grace, and some real moments
    gone = [job for job in free if two_teams.restarts(job) == 1]
    assert len(gone) == 1
    budgets = budgets_of(two_teams)
    assert budgets["B"]["free_gpu_hours"] > 0
    shown = two_teams.json("srank", "--running", "--json")["jobs"]
    allocated = {job["job_id"]: job["kind"] == "allocated" for job in shown}
    assert allocated[claimant]
    assert not any(allocated[job] for job in free if job not in gone)


@contracts
def test_a_budget_without_shares_and_nobodys_jobs_run_free_and_last(two_teams):
    blocker = fill(two_teams, 4, "--min-runtime=8h", user="man")
    assert len(blocker) == 4
    answer = two_teams.submit("--gpus=8", "--min-runtime=1h", user="news", script=LONG)
    assert "runs free" in answer.stderr or "unallocated" in answer.stderr
    nobody = two_teams.sbatch("--gpus=8", "--min-runtime=1h", user="mail", script=LONG)
    funded = two_teams.sbatch("--gpus=8", "--min-runtime=1h", user="games", script=LONG)
    zero = int(answer.stdout)
    two_teams.wait_for("funded first",
                       lambda: two_teams.queue("-t", "PD")[0] == str(funded))
    assert set(two_teams.queue("-t", "PD")) == {str(zero), str(nobody), str(funded)}


@contracts
def test_team_priority_counts_only_inside_its_budget(two_teams):
    fill(two_teams, 3, "--min-runtime=8h", user="man")
    fill(two_teams, 1, "--min-runtime=8h", user="games")
    # B holds three nodes, A one: A's goes first however low, B's own follow their priorities.
    low_a = two_teams.sbatch("--gpus=8", "--min-runtime=5m", "--team-priority=low", user="games")
    normal_b = two_teams.sbatch("--gpus=8", "--min-runtime=5m", user="man")
    urgent_b = two_teams.sbatch("--gpus=8", "--min-runtime=5m", "--team-priority=urgent",
                                user="man")
    low_b = two_teams.sbatch("--gpus=8", "--min-runtime=5m", "--team-priority=low", user="man")
    wanted = [str(job) for job in (low_a, urgent_b, normal_b, low_b)]
    two_teams.wait_for(f"the order {wanted}", lambda: two_teams.queue("-t", "PD") == wanted)
    two_teams.run("scontrol", "hold", normal_b)
    two_teams.run("scontrol", "release", normal_b)
    two_teams.run("scontrol", "reconfigure")
    two_teams.wait_for("the same order", lambda: two_teams.queue("-t", "PD") == wanted)


@contracts
def test_an_administrators_priority_and_held_jobs_stay(two_teams):
    fill(two_teams, 4, "--min-runtime=8h", user="man")
    first = two_teams.sbatch("--gpus=8", "--min-runtime=5m", user="games")
    second = two_teams.sbatch("--gpus=8", "--min-runtime=5m", user="games")
    two_teams.run("scontrol", "update", f"jobid={second}", "priority=3999999999")
    held = two_teams.sbatch("--gpus=8", "--min-runtime=5m", "--hold", user="games")
    two_teams.wait_for("the administrator's word counts",
                       lambda: two_teams.queue("-t", "PD")[:2] == [str(second), str(first)])
    assert two_teams.job(second)["Priority"] == "3999999999"
    assert two_teams.job(held)["Priority"] == "0"
    # nice orders the jobs of one user and team priority.
    nicer = two_teams.sbatch("--gpus=8", "--min-runtime=5m", "--nice=1000", user="games")
    last = two_teams.sbatch("--gpus=8", "--min-runtime=5m", user="games")
    two_teams.wait_for("the nice one is last", lambda: two_teams.queue("-t", "PD")[1:4] == [
        str(first), str(last), str(nicer)])


@pytest.mark.lab(faketime=SPEED, fresh=True, settings=SETTINGS)  # nothing used yet
def test_two_arrays_of_two_budgets_interleave_task_by_task(two_teams):
    two_teams.run("scontrol", "update", "nodename=g[1-4]", "state=drain", "reason=test")
    arrays = [two_teams.sbatch("--array=0-999", "-N1", "--gpus=8", "--min-runtime=1h",
                               user=user, script=LONG) for user in ("games", "man")]
    for array in arrays:
        two_teams.wait_for("tasks that may start have records of their own",
                           lambda array=array: tasks_apart(two_teams, array) >= 2)
    two_teams.run("scontrol", "update", "nodename=g[1-4]", "state=resume")
    running = two_teams.wait_for(
        "four tasks run", lambda: (lambda found: found if len(found) == 4 else None)(
            two_teams.run("squeue", "-h", "-t", "R", "-o", "%F").stdout.split()))
    assert sorted(running.count(str(array)) for array in arrays) == [2, 2]
    for array in arrays:
        two_teams.run("scancel", array)


@pytest.mark.lab(faketime=SPEED, fresh=True, settings=SETTINGS)  # nothing used yet
def test_an_array_does_not_take_the_pass_from_single_jobs(two_teams):
    two_teams.run("scontrol", "update", "nodename=g[1-4]", "state=drain", "reason=test")
    array = two_teams.sbatch("--array=0-999", "-N1", "--gpus=8", "--min-runtime=1h",
                             user="games", script=LONG)
    singles = [two_teams.sbatch("-N1", "--gpus=8", "--min-runtime=1h", user="man", script=LONG)
               for _ in range(3)]
    two_teams.wait_for("tasks that may start have records of their own",
                       lambda: tasks_apart(two_teams, array) >= 2)
    two_teams.run("scontrol", "update", "nodename=g[1-4]", "state=resume")
    running = two_teams.wait_for(
        "four jobs run", lambda: (lambda found: found if len(found) == 4 else None)(
            two_teams.run("squeue", "-h", "-t", "R", "-o", "%F").stdout.split()))
    assert running.count(str(array)) == 2
    assert sum(str(job) in running for job in singles) == 2
    two_teams.run("scancel", array)


@contracts
def test_freed_nodes_belong_to_the_claimant_until_it_starts(two_teams):
    """Two nodes that become free at different times, with smaller jobs of the other budget that
    would fit onto the first at once (stock Slurm livelocks here)."""
    fill(two_teams, 2, "--min-runtime=8h", user="man")
    deaf = "trap '' TERM; while true; do sleep 1; done"
    slow = two_teams.sbatch("-N1", "--gpus=8", "--resumable", user="man", script=deaf)
    quick = two_teams.sbatch("-N1", "--gpus=8", "--resumable", user="man", script=LONG)
    for job in (slow, quick):
        two_teams.wait_for_state(job, "RUNNING")
    small = [two_teams.sbatch("-N1", "--gpus=1", "--resumable", user="man", script=LONG)
             for _ in range(4)]
    claimant = two_teams.sbatch("-N2", "--gpus=16", "--min-runtime=1h", user="games", script=LONG)
    two_teams.wait_for_state(claimant, "RUNNING", seconds=40)
    assert two_teams.restarts(slow) == two_teams.restarts(quick) == 1
    assert all(two_teams.state(job) == "PENDING" for job in small)
    health = two_teams.json("srank", "--health", "--json")
    assert health["preemptions"]["wasted"] == 0


@contracts
def test_a_run_that_cannot_resume_ends_as_preempted(two_teams):
    fill(two_teams, 3, "--min-runtime=8h", user="man")
    victim = two_teams.sbatch("-N1", "--gpus=8", "--min-runtime=10m", user="man", script=LONG)
    two_teams.wait_for_state(victim, "RUNNING")
    claimant = two_teams.sbatch("-N1", "--gpus=8", "--min-runtime=5m", user="games", script=LONG)
    two_teams.wait_for_state(claimant, "RUNNING", seconds=40)
    assert two_teams.state(victim) == "PREEMPTED"
    why = two_teams.run("srank", "--why", victim).stdout
    assert str(claimant) in why and "games" in why


@pytest.mark.lab(faketime=SPEED, fresh=True, settings=SETTINGS)
def test_a_restart_in_the_middle_changes_nothing_and_charges_once(lab):
    fund(lab, TREE)
    fill(lab, 3, "--min-runtime=8h", user="man")
    victim = lab.sbatch("-N1", "--gpus=8", "--min-runtime=20m", "--resumable", user="man",
                        script=LONG)
    lab.wait_for_state(victim, "RUNNING")
    claimant = lab.sbatch("-N1", "--gpus=8", "--min-runtime=5m", user="games", script=LONG)
    lab.wait_for_state(claimant, "PENDING")
    started = epoch(lab, lab.job(victim)["StartTime"])

    lab.restart_slurmctld()
    lab.wait_for("the tree is back",
                 lambda: "B" in lab.run("sbudget", "-n", "-P", "show", "tree", check=False).stdout)
    shown = {job["job_id"]: job
             for job in lab.json("srank", "--running", "--json")["jobs"]}
    # From the moment it could work: the prolog took some of our milliseconds.
    until = shown[victim]["protected_until"]
    assert 0 <= until - (started + 1200) <= SPEED
    lab.wait_for_state(claimant, "RUNNING", seconds=60)
    record = lab.json("sbudget", "--json", "show", "preemption")["preemptions"][0]
    assert record["contract_ended_at"] == until
    assert 0 <= record["warned_at"] - until <= SPEED

    # The window's charge is what ran, once: three runs and a bit, eight GPUs each.
    lab.restart_slurmctld()
    lab.wait_for("the engine answers",
                 lambda: lab.run("srank", "--health", check=False).returncode == 0)
    jobs = lab.run("squeue", "-h", "-t", "R", "-u", "man", "-o", "%S").stdout.split()
    now = lab.now()
    hours = sum(8 * (now - epoch(lab, at)) / 3600 for at in jobs)
    assert record["victim_job_id"] == victim
    hours += 8 * (record["gone_at"] - started) / 3600
    assert budgets_of(lab)["B"]["used_gpu_hours"] == pytest.approx(hours, rel=0.05)


@contracts
def test_reconfigure_takes_new_settings_and_keeps_good_ones(two_teams):
    config = two_teams.root / "etc" / "tranche.conf"
    good = config.read_text()
    try:
        config.write_text(good + "MaxPreemptionsPerHour=7\n")
        two_teams.run("scontrol", "reconfigure")
        two_teams.wait_for("the new setting is in force", lambda: two_teams.json(
            "srank", "--health", "--json")["settings"]["MaxPreemptionsPerHour"] == "7")
        config.write_text(good + "MaxPreemptionsPerHuor=9\n")
        two_teams.run("scontrol", "reconfigure")
        complaint = two_teams.wait_for("the mistake is named", lambda: [
            line for line in two_teams.json("srank", "--health", "--json")["complaints"]
            if "MaxPreemptionsPerHuor" in line])
        assert "did you mean" in complaint[0] or "MaxPreemptionsPerHour" in complaint[0]
        settings = two_teams.json("srank", "--health", "--json")["settings"]
        assert settings["MaxPreemptionsPerHour"] == "7"
    finally:
        config.write_text(good)
        two_teams.run("scontrol", "reconfigure")


@contracts
def test_four_users_have_four_different_rights(two_teams):
    """root may change all; games manages A and below; man only uses B; mail is nobody's."""
    lab = two_teams
    lab.run("sbudget", "-i", "modify", "budget", "where", "name=A", "set", "managers=games")
    # A manager strictly below his budget:
    lab.run("sbudget", "-i", "add", "budget", "a1", "parent=A", "shares=2", user="games")
    lab.run("sbudget", "-i", "modify", "budget", "where", "name=a1", "set", "shares=3",
            user="games")
    for user, words in (
            ("games", ["modify", "budget", "where", "name=A", "set", "shares=9"]),
            ("games", ["modify", "budget", "where", "name=B", "set", "shares=0"]),
            ("games", ["add", "budget", "a2", "parent=A", "users=man"]),
            ("man", ["modify", "budget", "where", "name=B", "set", "shares=9"]),
            ("man", ["add", "budget", "b1", "parent=B"]),
            ("mail", ["delete", "budget", "a1"])):
        answer = lab.run("sbudget", "-i", *words, user=user, check=False)
        assert answer.returncode == 1, words
        assert len(answer.stderr.strip().splitlines()) == 1, answer.stderr
    tree = budgets_of(lab, user="mail")
    assert tree["A"]["shares"] == 1 and tree["B"]["shares"] == 1 and tree["a1"]["shares"] == 3
    assert "a2" not in tree and "b1" not in tree
    lab.run("sbudget", "-i", "delete", "budget", "a1", user="games")


@contracts
def test_a_budget_with_a_running_job_cannot_be_deleted(two_teams):
    fill(two_teams, 1, "--min-runtime=1h", user="games")
    answer = two_teams.run("sbudget", "-i", "delete", "budget", "A", check=False)
    assert answer.returncode == 1
    assert "A" in answer.stderr and "runs" in answer.stderr
    assert "A" in two_teams.run("sbudget", "-n", "-P", "show", "tree").stdout


@pytest.mark.lab(faketime=SPEED, settings=["tranche:DefaultMinRuntime=0"])
def test_a_debug_job_takes_any_run_past_its_contract_and_its_own_users_too(lab):
    """All runs are of one budget, whose order only sorts, and of the debug job's own user: only
    the express lane lets it start. The victim's next run is protected for an hour, not for two;
    a second debug job of that user is over the cap of the lane and waits like any other."""
    fund(lab, TREE)
    report = "echo min $TRANCHE_MIN_RUNTIME; " + LONG
    runs = [lab.sbatch("-N1", "--gpus=8", "--min-runtime=20m", "--resumable", script=report,
                       user="games") for _ in range(4)]
    for job in runs:
        lab.wait_for_state(job, "RUNNING")
    ends = max(job["protected_until"] for job in lab.json("srank", "--running", "--json")["jobs"])
    longer = lab.sbatch("-N1", "--gpus=8", "--min-runtime=2h", "--resumable", script=report,
                        user="games")
    early = lab.sbatch("-N1", "--gpus=8", "--min-runtime=10m", user="games", script="sleep 900")
    assert lab.state(early) == "PENDING"  # all runs are still under contract
    lab.wait_for_state(early, "RUNNING", seconds=60)
    assert epoch(lab, lab.job(early)["StartTime"]) >= ends - 30
    second = lab.sbatch("-N1", "--gpus=8", "--min-runtime=10m", user="games", script="sleep 900")
    why = lab.wait_for("the second is ranked", lambda: lab.run(
        "srank", "--why", second, check=False).stdout)
    assert "ExpressGPUsPerUser is reached" in why, why
    taken = lab.json("sbudget", "--json", "show", "preemption")["preemptions"]
    assert [record["reason"] for record in taken] == ["express"]
    victim = taken[0]["victim_job_id"]
    assert victim in runs and taken[0]["claimant_job_id"] == early
    lab.run("scancel", longer, second)
    lab.wait_for_state(victim, "RUNNING", seconds=60)
    lab.wait_for("its second run said so", lambda: lab.output(victim).count("min 1200") == 2)


@pytest.mark.lab(faketime=SPEED, settings=["tranche:DefaultMinRuntime=0"])
def test_a_run_that_went_for_a_debug_job_is_protected_for_an_hour_at_most(lab):
    fund(lab, TREE)
    report = "echo min $TRANCHE_MIN_RUNTIME; " + LONG
    fill(lab, 3, "--min-runtime=8h", user="man")
    victim = lab.sbatch("-N1", "--gpus=8", "--min-runtime=2h", "--resumable", script=report,
                        user="man")
    lab.wait_for_state(victim, "RUNNING")
    debug = lab.sbatch("-N1", "--gpus=1", "--min-runtime=10m", user="man", script="sleep 660")
    lab.wait_for_state(debug, "RUNNING", "COMPLETED", seconds=180)
    assert lab.restarts(victim) == 1
    lab.wait_for_state(victim, "RUNNING", seconds=60)
    lab.wait_for("the second run said what it has",
                 lambda: re.findall(r"^min (\d+)$", lab.output(victim), re.M) == ["7200", "3600"])


@pytest.mark.lab(faketime=SPEED, settings=[
    "tranche:DefaultMinRuntime=0", "tranche:GraceTime=10",
    "tranche:LookbackWindow=4:00:00", "tranche:ExpressFraction=0"])
def test_two_budgets_of_three_to_one_get_three_to_one(lab):
    """Constant demand over two windows of four hours, contracts of ten minutes. In the second
    window the shares hold within 5 %, and within 25 % in each eighth of it."""
    fund(lab, {"A": {"shares": 3, "users": "games"}, "B": {"shares": 1, "users": "man"}})
    for user in ("games", "man"):
        for _ in range(10):
            lab.sbatch("-N1", "--gpus=4", "--min-runtime=10m", "--resumable", user=user,
                       script="sleep 3600000")
    start = lab.now()
    window = 4 * 3600

    samples = []  # (instant, GPUs of A, GPUs of B)

    def sample():
        lines = lab.run("squeue", "-h", "-t", "R,CG", "-o", "%u").stdout.split()
        samples.append((lab.now(), 4 * lines.count("games"), 4 * lines.count("man")))
        return samples[-1][0] >= start + 2 * window

    lab.wait_for("two windows are over", sample, seconds=2 * window / SPEED + 60, every=0.25)

    def mean(begin, end, column):
        inside = [s for s in samples if begin <= s[0] < end]
        return sum(s[column] for s in inside) / len(inside)

    second = start + window
    a, b = (mean(second, second + window, column) for column in (1, 2))
    assert a / (a + b) == pytest.approx(0.75, rel=0.05)
    assert b / (a + b) == pytest.approx(0.25, rel=0.05 * 3)
    for eighth in range(8):
        begin = second + eighth * window / 8
        a, b = (mean(begin, begin + window / 8, column) for column in (1, 2))
        assert a / (a + b) == pytest.approx(0.75, rel=0.25), f"eighth {eighth}"
    health = lab.json("srank", "--health", "--json")
    assert health["preemptions"]["wasted"] == 0
    taken = lab.json("sbudget", "--json", "show", "preemption")["preemptions"]
    assert taken, "it was preemption that kept the shares"
