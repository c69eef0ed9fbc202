# SPDX-License-Identifier: GPL-2.0-or-later
"""DryRun=yes on real daemons: the queue, sprio, sshare and the limits are as without us; our order
is shown beside, and nobody is preempted."""

import random
import re

import pytest

USERS = {"games": "physics", "man": "physics", "news": "biology", "mail": "biology"}
# Fair Tree ranks the accounts by what was used, size and QOS are constants: no part of a priority
# depends on the second at which it is computed.
SITE = ["PriorityCalcPeriod=1", "PriorityDecayHalfLife=14-0", "PriorityWeightFairshare=100000",
        "PriorityWeightJobSize=5000", "PriorityWeightQOS=2000", "PriorityFavorSmall=NO"]
STOCK = {"slurmdbd": True, "faketime": 60, "stock": True, "settings": SITE, "fresh": True}
REHEARSAL = {"slurmdbd": True, "faketime": 60, "settings": SITE + [
    "tranche:DryRun=yes", "tranche:DefaultMinRuntime=0", "tranche:ExpressFraction=0",
    "tranche:GraceTimeFree=5", "tranche:MaxProtectedFraction=1"]}
rehearsal = pytest.mark.lab(**REHEARSAL)


@pytest.fixture(autouse=True)
def funded(request):
    if "lab" in request.fixturenames:
        accounts(request.getfixturevalue("lab"))


def accounts(lab):
    if "physics" in lab.run("sacctmgr", "-nP", "show", "account", "format=account").stdout:
        return
    lab.run("sacctmgr", "-iQ", "modify", "qos", "normal", "set", "Priority=10")
    lab.run("sacctmgr", "-iQ", "add", "qos", "low", "Priority=1")
    for account, limits in (("physics", "GrpTRESRunMins=cpu=100000"), ("biology", "Fairshare=3")):
        lab.run("sacctmgr", "-iQ", "add", "account", account, limits)
    for user, account in USERS.items():
        lab.run("sacctmgr", "-iQ", "add", "user", user, f"account={account}", "qos=normal,low",
                "DefaultQOS=normal")
    lab.wait_for("slurmctld knows the users", lambda: all(
        user in lab.run("scontrol", "-o", "show", "assoc_mgr", "flags=assoc").stdout
        for user in USERS))


def use(lab):
    """Each user has used another amount, far enough apart for a rank that does not waver."""
    jobs = [lab.sbatch("-n", cpus, "-t", "60", script="sleep 600", user=user)
            for user, cpus in (("games", 16), ("man", 4), ("news", 8), ("mail", 1))]
    for job in jobs:
        lab.wait_for_state(job, "COMPLETED", "GONE", seconds=60)

    def charged():
        rows = lab.run("sshare", "-a", "-nP", "-o", "User,RawUsage").stdout.split()
        used = dict(row.split("|") for row in rows if row and not row.startswith("|"))
        return all(int(used.get(user) or 0) > 0 for user in USERS)
    lab.wait_for("the usage is charged", charged, seconds=30)


def submit_200(lab):
    """The same 200 jobs in each cluster, behind one that has all nodes; {job id: number}."""
    lab.sbatch("-N4", "--exclusive", "-t", "1000", script="sleep 60000", user="root")
    chance = random.Random(7)
    numbers = {}
    for number in range(200):
        user = chance.choice(sorted(USERS))
        words = ["-t", "100", f"-N{chance.choice((1, 1, 1, 2, 4))}", "-n",
                 chance.choice((4, 8, 16)), "-q", chance.choice(("normal", "low"))]
        numbers[lab.sbatch(*words, script="sleep 60", user=user)] = number
    return numbers


def order(lab, numbers):
    """Numbers of the pending jobs in squeue's order, and what sprio says of each."""
    ids = [int(word) for word in lab.queue("-t", "PENDING")]
    factors = {}
    for line in lab.run("sprio", "-h", "-o", "%i %Y %A %F %J %Q").stdout.splitlines():
        words = line.split()
        factors[numbers[int(words[0])]] = words[1:]
    return [numbers[job] for job in ids], factors


def settled(lab, numbers):
    """The order once the site's plugin has been round, twice the same."""
    def same():
        first = order(lab, numbers)
        return first if len(first[0]) == 200 and first == order(lab, numbers) else None
    lab.wait_for("two minutes of the cluster are over",
                 lambda start=lab.now(): lab.now() > start + 150)
    return lab.wait_for("the order is settled", same, seconds=30)


def test_200_jobs_have_the_order_that_they_have_without_us_and_ours_is_shown_beside(labs, request):
    stock = labs.get(request.node.fspath, STOCK)
    accounts(stock)
    use(stock)
    expected, factors = settled(stock, submit_200(stock))
    assert len({tuple(values) for values in factors.values()}) > 10, "a test of nothing"
    lab = labs.get(request.node.fspath, REHEARSAL)
    accounts(lab)
    lab.wait_for("the engine answers", lambda: "ordered by priority/multifactor" in
                 lab.run("srank", "--health", check=False).stdout)
    # The budgets turn it round: biology has little.
    lab.run("sbudget", "-i", "add", "budget", "physics", "shares=9")
    lab.run("sbudget", "-i", "add", "budget", "biology", "shares=1")
    use(lab)
    numbers = submit_200(lab)
    got, got_factors = settled(lab, numbers)
    assert got == expected
    assert got_factors == factors
    shown = {job["job_id"]: job for job in lab.json("srank", "--json")["jobs"]}
    assert set(shown) == set(numbers)
    assert sorted(job["rank"] for job in shown.values()) == list(range(1, 201))
    by_slurm = dict(line.split() for line in
                    lab.run("squeue", "-h", "-t", "PENDING", "-o", "%i %Q").stdout.splitlines())
    assert {str(job): entry["priority"] for job, entry in shown.items()} == {
        job: int(priority) for job, priority in by_slurm.items()}
    ours = [numbers[job] for job in sorted(shown, key=lambda job: shown[job]["rank"])]
    assert ours != got
    assert lab.json("srank", "--health", "--json")["faults"] == 0


@rehearsal
def test_nobody_is_preempted_and_what_would_have_been_is_recorded(lab):
    if "physics" not in lab.run("sbudget", "-nP", "show", "tree").stdout:
        lab.run("sbudget", "-i", "add", "budget", "physics", "shares=9")
        lab.run("sbudget", "-i", "add", "budget", "biology", "shares=1")
    free = [lab.sbatch("-N1", "--gpus=8", "-t", "1000", script="sleep 60000", user="news")
            for _ in range(4)]
    for job in free:
        lab.wait_for_state(job, "RUNNING")
    claimant = lab.sbatch("-N1", "--gpus=8", "--min-runtime=30m", "-t", "1000", user="games")
    record = lab.wait_for("it is recorded", lambda: [
        row for row in lab.json("sbudget", "--json", "show", "preemption")["preemptions"]
        if row["claimant_job_id"] == claimant])
    assert [row["outcome"] for row in record] == ["rehearsed"]
    assert record[0]["victim_job_id"] in free
    health = lab.json("srank", "--health", "--json")
    assert health["preemptions"]["total"] == 0 and health["preemptions"]["rehearsed"] >= 1
    lab.wait_for("ten minutes are over", lambda start=lab.now(): lab.now() > start + 600)
    assert lab.state(claimant) == "PENDING"
    assert all(lab.state(job) == "RUNNING" and lab.restarts(job) == 0 for job in free)
    why = lab.run("srank", "--why", record[0]["victim_job_id"]).stdout
    assert "would have been preempted" in why


def run_minutes(lab):
    for line in lab.run("scontrol", "-o", "show", "assoc_mgr", "flags=assoc").stdout.splitlines():
        if "Account=physics" in line and "UserName= " in line:
            return int(re.search(r"GrpTRESRunMins=(?:\S*,)?cpu=\w+\((\d+)\)", line)[1])
    return None


@rehearsal
def test_the_site_plugin_alone_keeps_the_books_of_the_limits(lab):
    job = lab.sbatch("-n4", "-t", "100", script="sleep 6000", user="games")
    lab.wait_for_state(job, "RUNNING")
    started = int(lab.run("date", "-d", lab.job(job)["StartTime"], "+%s").stdout)
    lab.wait_for("ten minutes are over", lambda: lab.now() > started + 600)
    left = 4 * (100 - (lab.now() - started) / 60)
    # Taken away once, minute by minute; twice would be forty CPU minutes less.
    assert left - 8 <= run_minutes(lab) <= left + 16
    lab.run("scancel", job)
    lab.wait_for("nothing is left", lambda: run_minutes(lab) == 0)


@rehearsal
def test_a_rehearsal_ends_with_a_restart_and_not_before(lab):
    config = lab.root / "etc" / "tranche.conf"
    good = config.read_text()
    try:
        config.write_text(good.replace("DryRun=yes", "DryRun=no"))
        lab.run("scontrol", "reconfigure")
        lab.wait_for("it is said", lambda: "DryRun=no takes effect at the next restart" in
                     lab.run("srank", "--health", check=False).stdout)
        assert lab.json("srank", "--health", "--json")["ordered_by"] == "priority/multifactor"
        job = lab.sbatch("-n1", "-t", "10", "--begin=now+10hours", user="news")
        assert int(lab.job(job)["Priority"]) < 1000000
        lab.restart_slurmctld()
        lab.wait_for("the budgets order the queue", lambda: int(
            lab.job(job)["Priority"]) >= 1000000000)
        config.write_text(good.replace("DryRun=yes", "DryRun=yes\nDryRunPriorityType=priority/no"))
        lab.restart_slurmctld()
        text = lab.wait_for("the missing plugin is named", lambda: [
            line for line in lab.json("srank", "--health", "--json")["complaints"]
            if "DryRunPriorityType=priority/no" in line])[0]
        assert "there is no such plugin in PluginDir=" in text and "by submission" in text
        assert text in lab.log()
        later = lab.sbatch("-n1", "-t", "10", "--begin=now+10hours", user="games")
        latest = lab.sbatch("-n1", "-t", "10", "--begin=now+10hours", user="games")
        assert int(lab.job(later)["Priority"]) > int(lab.job(latest)["Priority"]) > 0
    finally:
        config.write_text(good)
        lab.restart_slurmctld()
        lab.wait_for("the site's plugin is back", lambda: "ordered by priority/multifactor" in
                     lab.run("srank", "--health", check=False).stdout)
