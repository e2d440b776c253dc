"""Choose the replica of a deployment for a request: the less busy of two chosen at random.

That keeps queues nearly as short as looking at all of them would, without the herd that follows old news (Mitzenmacher,
"The power of two choices in randomized load balancing", 2001).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from random import Random

from kernel_serve.values import Replica


class Candidate:
    """Describes a replica as the router knows it: the requests sent from here, and the load that it reported."""

    __slots__ = ("load", "models", "reachable", "replica", "sent")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.sent = 0
        self.load = 0
        self.reachable = True
        self.models: tuple[str, ...] = replica.models

    @property
    def busy(self) -> int:
        """The number of its requests, as far as is known here."""
        return self.sent if self.sent > self.load else self.load

    @property
    def takes_more(self) -> bool:
        """Whether it has room for one more."""
        return self.reachable and self.busy < self.replica.max_ongoing_requests


class Chooser:
    """Chooses among the replicas of one deployment; those on `node` come first while they have room."""

    def __init__(self, random: Random, node: str = "") -> None:
        self._random = random
        self._node = node
        self.candidates: dict[str, Candidate] = {}
        self._near: list[Candidate] = []
        self._far: list[Candidate] = []

    def update(self, replicas: Iterable[Replica]) -> tuple[list[Replica], list[Replica]]:
        """Replace the replicas; return the new ones, and those that are gone."""
        wanted = {replica.id: replica for replica in replicas}
        gone = [each.replica for id, each in self.candidates.items() if id not in wanted]
        new = [replica for id, replica in wanted.items() if id not in self.candidates]
        for replica in gone:
            del self.candidates[replica.id]
        for id, replica in wanted.items():
            if id in self.candidates:
                self.candidates[id].replica = replica
            else:
                self.candidates[id] = Candidate(replica)
        everyone = self.candidates.values()
        self._near = [each for each in everyone if each.replica.node == self._node]
        self._far = [each for each in everyone if each.replica.node != self._node]
        return new, gone

    def choose(self, model: str = "", tried: Collection[str] = ()) -> Candidate | None:
        """Return a candidate with room, None if all are full.

        One that has `model` loaded is preferred. Those in `tried` are chosen only if no other has room.
        """
        if model:
            having = [each for each in self.candidates.values() if model in each.models and each.takes_more]
            if tried:
                having = [each for each in having if each.replica.id not in tried]
            if having:
                return self._of_two(having)
        for group in (self._near, self._far):
            if len(group) == 1 and not tried:
                if group[0].takes_more:
                    return group[0]
            elif group and (found := self._among(group, tried)) is not None:
                return found
        return self._last_resort(tried) if tried else None

    def _among(self, group: list[Candidate], tried: Collection[str]) -> Candidate | None:
        chosen = self._of_two(group)
        if chosen.takes_more and chosen.replica.id not in tried:
            return chosen
        free = [each for each in group if each.takes_more and each.replica.id not in tried]
        return self._of_two(free) if free else None

    def _last_resort(self, tried: Collection[str]) -> Candidate | None:
        free = [self.candidates[id] for id in tried if id in self.candidates and self.candidates[id].takes_more]
        return min(free, key=lambda each: each.busy, default=None)

    def _of_two(self, group: list[Candidate]) -> Candidate:
        size = len(group)
        if size == 1:
            return group[0]
        one = int(self._random.random() * size)
        other = int(self._random.random() * (size - 1))
        first, second = group[one], group[other + (other >= one)]
        return second if second.busy < first.busy else first
