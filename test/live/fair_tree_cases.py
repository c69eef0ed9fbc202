# SPDX-License-Identifier: GPL-2.0-or-later
"""The cases of test_fairtree_agreement.py: trees, past use, and fifty jobs each.

A case has one or two nodes of eight GPUs, and in the live cluster a partition of its own. Its past
use are jobs that hold all of it at first; the fifty queue behind them. Each run ends at an instant of a
grid: what real starts take does not add up. Time is cut into cells of CELL seconds, with ends at
three places of each, away from the instants at which Slurm computes fair shares.

What is drawn comes from a fixed seed, one with which no start is a coin toss: no two runs end at
once, and the order stays the same when each fair share is off by 3 % and each limit by 40 seconds.
"""

import random
from dataclasses import dataclass

CELL = 100
PERIOD = 300  # PriorityCalcPeriod
FIRST_SUBMISSION = 10  # after fair shares were computed
ENDS = (30, 50, 70)  # in a cell
LATENCY = 3  # of a real start, all in all; the simulator has none


@dataclass(frozen=True)
class Job:
    user: str
    account: str
    gpus: int
    nodes: int
    limit_seconds: int
    ends_in: int  # seconds of a cell
    cells: int = 0  # how many cells after that of its start
    until: int = 0  # past use: the number of the cell

    def ends_at(self, started_at):
        """In the simulator. Both from the instant at which fair shares were computed last before
        all of it."""
        cell = self.until or started_at // CELL + self.cells
        return CELL * cell + self.ends_in + LATENCY


@dataclass(frozen=True)
class Case:
    name: str
    about: str
    accounts: dict  # name: (parent, shares); "" is the case's own account
    users: tuple  # (user, account)
    past: tuple  # (user, account, gpus, nodes, until)
    shapes: tuple  # (gpus, nodes)
    cells: tuple
    limits: tuple = (600,)
    nodes: int = 2
    seed: int = 0
    places: str = ""  # in its cell, of each of the fifty: so that no two runs end at once

    def jobs(self):
        """Past use first, then the fifty."""
        drawn = random.Random(self.seed)
        found = [Job(user, account, gpus, nodes, 60 * (CELL * until // 60 + 6),
                     ENDS[i % len(ENDS)], until=until)
                 for i, (user, account, gpus, nodes, until) in enumerate(self.past)]
        for number in range(50):
            user, account = drawn.choice(self.users)
            gpus, nodes = drawn.choice(self.shapes)
            limit = drawn.choice(self.limits)
            cells = min(drawn.choice(self.cells), limit // CELL - 1)
            place = int(self.places[number]) if self.places else 0
            found.append(Job(user, account, gpus, nodes, limit, ENDS[place], cells))
        return found

    def budgets(self):
        accounts = [{"name": self.name, "parent": "root", "shares": 1}]
        accounts += [{"name": name, "parent": parent or self.name, "shares": shares}
                     for name, (parent, shares) in self.accounts.items()]
        return {"version": 1, "budgets": accounts}

LIMITS = (*range(300, 900, 120), *range(1800, 3000, 120))

CASES = (
    Case("flat", "four accounts of one user each, whole nodes",
         {"flata": ("", 4), "flatb": ("", 3), "flatc": ("", 2), "flatd": ("", 1)},
         (("games", "flata"), ("man", "flatb"), ("news", "flatc"), ("mail", "flatd")),
         (("games", "flata", 8, 1, 12), ("man", "flatb", 4, 1, 9), ("mail", "flatd", 4, 1, 8)),
         ((8, 1),), (1, 1, 2),
         seed=124, places="00001001101000100001101011001001001010001000101011"),
    Case("deep", "three levels, two users to an account, whole nodes",
         {"deepa": ("", 5), "deepb": ("", 1), "deepaa": ("deepa", 4), "deepab": ("deepa", 1),
          "deepba": ("deepb", 3), "deepbb": ("deepb", 1)},
         (("games", "deepaa"), ("man", "deepaa"), ("news", "deepab"), ("mail", "deepba"),
          ("lp", "deepba"), ("games", "deepbb")),
         (("games", "deepaa", 8, 1, 12), ("mail", "deepba", 4, 1, 8),
          ("games", "deepbb", 4, 1, 10)),
         ((8, 1),), (1, 1, 2),
         seed=10, places="10010101010001000110010000010010110000100101110100"),
    Case("beside", "users beside accounts, half nodes",
         {"besidea": ("", 1), "besideb": ("", 2), "besideaa": ("besidea", 2)},
         (("games", "besidea"), ("man", "besideaa"), ("news", "besideaa"), ("games", "besideb"),
          ("mail", "besideb")),
         (("games", "besidea", 8, 1, 12), ("man", "besideaa", 4, 1, 9),
          ("mail", "besideb", 4, 1, 13)),
         ((4, 1),), (2, 2, 3),
         seed=822, places="01000000011101111001101010001110000101010011001200"),
    Case("sizes", "jobs of two, four and eight GPUs with different limits fill gaps of a node",
         {"sizesa": ("", 30), "sizesb": ("", 6), "sizesc": ("", 1)},
         (("games", "sizesa"), ("man", "sizesb"), ("news", "sizesc")),
         (("games", "sizesa", 4, 1, 11), ("man", "sizesb", 2, 1, 9), ("news", "sizesc", 2, 1, 12)),
         ((2, 1), (4, 1), (4, 1), (8, 1)), (1, 1, 2), LIMITS, nodes=1,
         seed=489, places="00000000101010201010201000010010010010001200001100"),
    Case("gangs", "jobs of both nodes among jobs of one",
         {"gangsa": ("", 30), "gangsb": ("", 6), "gangsc": ("", 1)},
         (("games", "gangsa"), ("man", "gangsb"), ("news", "gangsc")),
         (("games", "gangsa", 8, 1, 8), ("man", "gangsb", 8, 1, 12)),
         ((16, 2), (8, 1), (8, 1), (8, 1)), (1, 1, 1, 2), LIMITS,
         seed=29, places="00000110100000010010000010011000000000001010001010"),
    Case("unused", "nothing used by most, one account without shares: ties go by submission",
         {"unuseda": ("", 1), "unusedb": ("", 1), "unusedc": ("", 0)},
         (("games", "unuseda"), ("man", "unuseda"), ("news", "unusedb"), ("mail", "unusedb"),
          ("lp", "unusedc")),
         (("lp", "unusedc", 16, 2, 9),),
         ((8, 1),), (1, 1, 2),
         seed=77, places="01010001000000101000011001101010001000100101000010"),
)
