"""Turns by weight, in an order as even as possible: 70/30 holds for every ten requests, not only for ten thousand."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random


class Turns:
    """Chooses whose turn it is, among as many participants as there are weights.

    Each participant has a credit that grows by its share with each turn, and a turn costs 1. Of those whose credit is
    large enough, the one takes the turn that would otherwise be the first to get too little. In any stretch of turns
    each is within 2 - 1/(n-1) of its share, and within 1 if there are two; this is the chairman's rule of apportionment
    (Tijdeman, "The chairman assignment problem", 1980).
    """

    __slots__ = ("_credits", "_enough", "_shares")

    def __init__(self, weights: Sequence[float], random: Random | None = None) -> None:
        """Weights are from 0 on; if all are 0, there are no turns.

        `random` chooses where the order begins, so that several instances with the same weights don't begin with the
        same participant; without it, the order begins at its beginning.
        """
        total = sum(weights)
        self._shares = [(index, weight / total) for index, weight in enumerate(weights) if weight > 0]
        self._credits = [0.0] * len(weights)
        others = max(len(self._shares) - 1, 0)
        self._enough = 1 / (2 * others) if others else 0.0
        for _ in range(random.randrange(128) if random is not None and others else 0):
            self.next()

    def next(self) -> int:
        """Return the index of the participant whose turn it is."""
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
        if chosen < 0:  # this comes of rounding only
            chosen = max(self._shares, key=lambda each: credits[each[0]])[0]
        credits[chosen] -= 1
        return chosen


class Shares:
    """Decides for each request to which of several shares of all requests it belongs: to none, one or many, evenly."""

    __slots__ = ("_credits", "_shares")

    def __init__(self, shares: Sequence[float], random: Random | None = None) -> None:
        """Each share is from 0 to 1 of all requests. `random` chooses where the order begins."""
        self._shares = list(shares)
        self._credits = [random.random() if random is not None else 0.0 for _ in shares]

    def next(self) -> list[int]:
        """Return the indices of the shares to which the next request belongs."""
        chosen = []
        for index, share in enumerate(self._shares):
            credit = self._credits[index] + share
            if credit >= 1 - 1e-9:
                chosen.append(index)
                credit -= 1
            self._credits[index] = credit
        return chosen
