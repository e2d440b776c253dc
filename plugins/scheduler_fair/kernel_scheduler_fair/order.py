"""Whose turn it is: the most important first, among them whose account has least, then who came first."""

from __future__ import annotations

from kernel_scheduler_fair.accounts import Accounts
from kernel_scheduler_fair.holders import Holders
from kernel_scheduler_fair.lines import Line

STARVING_SECONDS = 2.0
"""After what time a line that has nothing at all is kept room for, whoever deserves it more."""

Rank = tuple[float, float, int]
"""What lines are sorted by, the one to be served first in front."""


class Order:
    """Ranks lines. One that holds nothing grows more important while it waits."""

    def __init__(self, accounts: Accounts, holders: Holders) -> None:
        self._accounts = accounts
        self._holders = holders

    def priority(self, line: Line, now: float) -> float:
        """Return a line's priority with what waiting has added to it."""
        seconds = self._accounts.policy.ageing_seconds
        if not seconds or self._holders.held_in_line(line.terms):
            return line.terms.priority
        return line.terms.priority + (now - line.front.since) // seconds

    def rank(self, line: Line, now: float) -> Rank:
        """Return what to sort lines by."""
        return -self.priority(line, now), self._accounts.share(line.terms.account), line.front.number

    def starves(self, line: Line, now: float) -> bool:
        """Return whether a line has had nothing for so long that room is kept for it."""
        return now - line.front.since >= STARVING_SECONDS and not self._holders.held_in_line(line.terms)
