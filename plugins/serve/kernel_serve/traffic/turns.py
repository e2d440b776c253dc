"""Turns by weight, in an order as even as can be: 70/30 holds for every ten requests, not only for ten thousand."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random


class Turns:
    """Whose turn it is, of as many as there are weights.

    Everybody has a credit that grows by the own share with each turn, and a turn costs 1. Of those whose credit is
    large enough, the one has the turn who would otherwise be the first to get too little. In any stretch of turns each
    is within 2 - 1/(n-1) of the share, and within 1 if there are two; this is the chairman's rule of apportionment.
    """

    __slots__ = ("_credits", "_enough", "_shares")

    def __init__(self, weights: Sequence[float], random: Random | None = None) -> None:
        """Weights are from 0 on; nobody has a turn if all are 0.

        `random` chooses where the order begins, so that several that have the same weights don't all begin with the
        same; without it, that is at its beginning.
        """
        total = sum(weights)
        self._shares = [(index, weight / total) for index, weight in enumerate(weights) if weight > 0]
        self._credits = [0.0] * len(weights)
        others = max(len(self._shares) - 1, 0)
        self._enough = 1 / (2 * others) if others else 0.0
        for _ in range(random.randrange(128) if random is not None and others else 0):
            self.next()

    def next(self) -> int:
        """Return the number of the one whose turn it is."""
        credits = self._credits
        enough = self._enough
        most = 1 - enough
        chosen = -1
        soonest = 0.0
        for index, share in self._shares:
            credit = credits[index] = credits[index] + share
            if credit < enough:
                continue
            deadline = (most - credit) / share
            if chosen < 0 or deadline < soonest:
                chosen = index
                soonest = deadline
        if chosen < 0:  # only by rounding
            chosen = max(self._shares, key=lambda each: credits[each[0]])[0]
        credits[chosen] -= 1
        return chosen


class Shares:
    """Which of several shares of all requests the next request belongs to: to none, one or many, evenly."""

    __slots__ = ("_credits", "_shares")

    def __init__(self, shares: Sequence[float], random: Random | None = None) -> None:
        """Each share is from 0 to 1, of all requests. `random` chooses where the order begins."""
        self._shares = list(shares)
        self._credits = [random.random() if random is not None else 0.0 for _ in shares]

    def next(self) -> list[int]:
        """Return the numbers of the shares to which the next request belongs."""
        chosen = []
        for index, share in enumerate(self._shares):
            credit = self._credits[index] + share
            if credit >= 1 - 1e-9:
                chosen.append(index)
                credit -= 1
            self._credits[index] = credit
        return chosen
