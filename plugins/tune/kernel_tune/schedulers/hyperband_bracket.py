"""One bracket of HyperBand: successive halving of its trials."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernel_tune.trial import Status, Trial


def largest_bracket(max_t: float, eta: float) -> int:
    """Return s_max, the largest integer s with eta**s <= max_t."""
    s = 0
    while eta ** (s + 1) <= max_t * (1 + 1e-9):
        s += 1
    return s


@dataclass(frozen=True)
class Rung:
    """Describes a step of successive halving: `size` trials may run until the time `milestone`."""

    size: int
    milestone: int


def plan(s: int, max_t: float, eta: float) -> list[Rung]:
    """Return the rungs of bracket s, from the first to the last.

    Source: Li et al., "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization" (JMLR 18, 2018,
    arXiv:1603.06560), algorithm 1: n = ceil(B/R * eta**s / (s+1)) with B = (s_max+1) R, r = R eta**-s, and in round i
    floor(n eta**-i) trials with r eta**i. Milestones are cut to whole units.
    """
    first = math.ceil((largest_bracket(max_t, eta) + 1) * eta**s / (s + 1) - 1e-9)
    return [Rung(max(int(first / eta**i + 1e-9), 1), int(max_t * eta ** (i - s) + 1e-9)) for i in range(s + 1)]


@dataclass
class Member:
    """Holds the last report of a trial of a bracket. `released` trials may run, to the milestone of the rung."""

    time: float = 0.0
    score: float = -math.inf
    released: bool = True


@dataclass
class Bracket:
    """Holds the trials of a bracket, and its present rung.

    It takes new trials until there are `rungs[0].size`, and only on its first rung.
    """

    s: int
    rungs: list[Rung]
    stop_last: bool
    members: dict[str, Member] = field(default_factory=dict)
    """The trials that are still in the bracket, by id, in the order in which they were added."""
    everyone: list[str] = field(default_factory=list)
    rung: int = 0
    progress: float = 0.0

    @property
    def milestone(self) -> int:
        """The time until which trials may run now."""
        return self.rungs[self.rung].milestone

    @property
    def is_last(self) -> bool:
        """Whether the bracket is on its last rung: trials that reach its milestone are done."""
        return self.rung == len(self.rungs) - 1

    @property
    def is_full(self) -> bool:
        """Whether the bracket takes no more trials."""
        return self.rung > 0 or len(self.everyone) >= self.rungs[0].size

    @property
    def is_over(self) -> bool:
        """Whether no trial of the bracket will run again, and none will be added."""
        return self.is_full and not self.members

    def add(self, trial_id: str) -> None:
        """Add a trial."""
        self.members[trial_id] = Member()
        self.everyone.append(trial_id)

    def report(self, trial_id: str, time: float, score: float) -> None:
        """Note time and score of a member."""
        member = self.members[trial_id]
        self.progress += max(time - member.time, 0.0)
        member.time, member.score = time, score

    def has_arrived(self, trial_id: str) -> bool:
        """Return whether a member has reached the milestone of this rung."""
        return self.members[trial_id].time >= self.milestone

    def all_have_arrived(self) -> bool:
        """Return whether all members have reached the milestone, and there is at least one."""
        return bool(self.members) and all(member.time >= self.milestone for member in self.members.values())

    def halve(self) -> list[str]:
        """Go to the next rung with the best members. Remove the others, and return their ids."""
        self.rung += 1
        ranked = sorted(self.members, key=lambda each: self.members[each].score, reverse=True)
        losers = ranked[self.rungs[self.rung].size :]
        for trial_id in losers:
            del self.members[trial_id]
        for member in self.members.values():
            member.released = member.time < self.milestone or (self.is_last and not self.stop_last)
        return losers

    def completed(self) -> float:
        """Return the part of the planned work that is done, 0 to 1."""
        if self.is_over:
            return 1.0
        ends = [rung.milestone for rung in self.rungs]
        steps = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        work = sum(rung.size * step for rung, step in zip(self.rungs, steps, strict=True))
        return min(self.progress / work, 1.0)

    def describe(self, trials: Mapping[str, Trial]) -> str:
        """Return the line for the status block."""
        statuses = [trials[trial_id].status for trial_id in self.everyone if trial_id in trials]
        shown = (Status.RUNNING, Status.PAUSED, Status.PENDING, Status.TERMINATED, Status.ERROR)
        counts = {str(status): statuses.count(status) for status in shown if status in statuses}
        rung = self.rungs[self.rung]
        return f"Bracket(n={rung.size}, r={rung.milestone}, completed={self.completed():.0%}): {counts}"
