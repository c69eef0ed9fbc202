# SPDX-License-Identifier: GPL-2.0-or-later
"""Ways round the rules, each beside honest use of the same demand: what it gains in GPU hours."""
import generate
import readings
from generate import DAY, HOUR, Chance
from lab import Case, mean, percent

NODES = 32
GPUS = NODES * generate.GPUS_PER_NODE
DAYS = 10
UNTIL = DAYS * DAY
QUARTER = 15 * 60
CHEAT = "t01"
SEEDS = (1, 2, 3, 4, 5, 6)


def background(seed, own=True):
    """All teams want twice their funding all the time; t01 is the one that will cheat."""
    teams = generate.draw_teams(GPUS, seed)
    workload = generate.Workload()
    for team in teams:
        if own or team.name != CHEAT:
            generate.lines_of_work(workload, Chance(seed, f"steady {team.name}"), team,
                                   2.0 * team.funded, 0, UNTIL, 6 * HOUR, 12 * HOUR,
                                   generate.training_size, generate.MINIMA, "training", (0.7, 1.3),
                                   0.0)
    generate.debug_jobs(workload, teams[1:], seed, UNTIL, generate.DEBUG_PER_DAY)
    return workload, teams


def own_trainings(workload):
    return [job for job in workload.jobs
            if job["account"] == CHEAT and job["class"] == "training"]


def honest(seed):
    return background(seed)


def eight_hours(seed):
    workload, teams = background(seed)
    for job in own_trainings(workload):
        job["min_runtime"] = 8 * HOUR
    return workload, teams


def replaced(seed, make):
    """Each training of the team replaced by what `make` yields."""
    workload, teams = background(seed)
    own = own_trainings(workload)
    kept = {id(job) for job in own}
    workload.jobs = [job for job in workload.jobs if id(job) not in kept]
    for job in own:
        workload.jobs += list(make(job))
    return workload, teams


def debug_chains(seed):
    def chain(job):
        for part in range(0, job["gpus"], 8):
            gpus = min(8, job["gpus"] - part)
            for at in range(job["submit"], job["withdrawn_at"], QUARTER):
                yield {**job, "submit": at, "gpus": gpus, "runtime": QUARTER,
                       "min_runtime": QUARTER, "time_limit": HOUR,
                       "withdrawn_at": at + 2 * QUARTER}

    return replaced(seed, chain)


def one_second(seed):
    def parts(job):
        for part in range(0, job["gpus"], 8):
            yield {**job, "gpus": min(8, job["gpus"] - part), "min_runtime": 1}

    return replaced(seed, parts)


def clones(seed):
    def twice(job):
        yield job
        yield {**job, "min_runtime": 0, "parent": job["parent"] + " clone"}

    return replaced(seed, twice)


def splitting(seed):
    def ones(job):
        for _ in range(job["gpus"]):
            yield {**job, "gpus": 1}

    return replaced(seed, ones)


def giants(seed):
    workload, teams = background(seed, own=False)
    chance = Chance(seed, "giants")
    at = chance.uniform(0, 6 * HOUR)
    while at < UNTIL:
        stay = chance.uniform(12 * HOUR, 48 * HOUR)
        workload.add(at, CHEAT, f"{CHEAT}-u0", 64, stay, 8 * HOUR, "training", True,
                     min(at + stay, UNTIL))
        at += stay
    return workload, teams


def cancelled_assemblies(seed):
    workload, teams = background(seed)
    for at in range(6 * HOUR, UNTIL - 2 * HOUR, 4 * HOUR):
        workload.add(at, CHEAT, f"{CHEAT}-u{at // HOUR % 10}", 64, 10 * HOUR, 8 * HOUR, "feint",
                     True, at + HOUR, team_priority="urgent")
    return workload, teams


def cannot_resume(seed):
    """Honest: trainings that cannot resume say so, and ask for half of what they need."""
    workload, teams = background(seed)
    for job in own_trainings(workload):
        job.update(resumable=0, checkpoint_seconds=10 ** 7)
    return workload, teams


def false_resumable(seed):
    workload, teams = background(seed)
    for job in own_trainings(workload):
        job.update(resumable=1, checkpoint_seconds=10 ** 7)
    return workload, teams


def ten_users(seed, lines_of_first=1, urgent=False):
    """The team as ten users with a line of 4 GPUs each."""
    workload, teams = background(seed, own=False)
    for user in range(10):
        for line in range(lines_of_first if user == 0 else 1):
            chance = Chance(seed, f"user {user} {line}")
            at = chance.uniform(0, 6 * HOUR)
            while at < UNTIL:
                stay = chance.lognormal(12 * HOUR, 0.6, 4 * HOUR, 3 * DAY)
                end = min(at + stay, UNTIL)
                runtime = (end - at) * chance.uniform(0.7, 1.3)
                workload.add(at, CHEAT, f"{CHEAT}-u{user}", 4, runtime,
                             generate.minimum_for(chance, runtime), "training", True, end,
                             team_priority="urgent" if urgent and user == 0 else "")
                at = end
    return workload, teams


def hog(seed):
    return ten_users(seed, lines_of_first=8)


def urgent_always(seed):
    return ten_users(seed, urgent=True)


# Name, the cheat, honest use, whose GPU hours: the team's or its first user's, and what the report
# shows of it where it gains.
CHEATS = (
    ("eight hours declared for everything", eight_hours, honest, "team"),
    ("debug-sized chains", debug_chains, honest, "team"),
    ("one-second minima through the lane", one_second, honest, "team"),
    ("a free clone of each job", clones, honest, "team"),
    ("all split into single GPUs", splitting, honest, "team"),
    ("giant gangs only", giants, honest, "team"),
    ("assemblies cancelled before their date", cancelled_assemblies, honest, "team"),
    ("`--resumable` though it is not", false_resumable, cannot_resume, "team"),
    ("a hog: eight lines where colleagues have one", hog, ten_users, "user"),
    ("urgent everywhere", urgent_always, ten_users, "user"),
)


def reading(lab, make, seed, policy, who):
    def workload():
        made, teams = make(seed)
        made.cut(UNTIL)
        return made, generate.budgets_of(teams)

    case = Case(lab.workload(f"cheat-{make.__name__}-{seed}", workload), f"{NODES}x8", UNTIL)
    answer = lab.run(case, policy, trace=True)
    jobs = readings.read_jobs(case)

    def of(job, budget):
        if budget != CHEAT:
            return "others"
        return "cheat" if who == "team" or jobs[job]["user"] == f"{CHEAT}-u0" else "colleagues"

    charged = readings.gpu_hours(answer, UNTIL, of, ("allocated",))
    free = readings.gpu_hours(answer, UNTIL, of, ("unallocated",))
    return {"charged": charged["cheat"], "all": charged["cheat"] + free["cheat"],
            "others": charged["others"] + charged["colleagues"],
            "goodput": answer["goodput_fraction"], "occupancy": answer["occupancy"]}


def gains(lab, seeds=SEEDS, policies=("article", "budget"), cheats=CHEATS):
    """{(cheat, policy): {"charged", "all", "others": mean change, "each": of all seeds}}"""
    items = [(cheat, policy, seed) for cheat in cheats for policy in policies for seed in seeds]

    def run(item):
        (_, cheat, usual, who), policy, seed = item
        return (reading(lab, cheat, seed, policy, who), reading(lab, usual, seed, policy, who))

    out = {}
    for ((name, _, _, _), policy, _), got in zip(items, lab.each(run, items)):
        out.setdefault((name, policy), []).append(got)
    return {key: summary(pairs) for key, pairs in out.items()}


def summary(pairs):
    def change(name):
        return sum(cheat[name] for cheat, _ in pairs) / max(
            sum(usual[name] for _, usual in pairs), 1e-9) - 1

    return {"charged": change("charged"), "all": change("all"), "others": change("others"),
            "each": [cheat["all"] / max(usual["all"], 1e-9) - 1 for cheat, usual in pairs],
            "goodput": mean(cheat["goodput"] - usual["goodput"] for cheat, usual in pairs)}


def signed(value):
    return ("+" if value >= 0 else "−") + percent(abs(value))
