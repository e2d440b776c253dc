"""Whose turn it is: the most important first, among them whose account has least, then who came first."""

from __future__ import annotations

from kernel_scheduler_fair.accounts import Accounts
from kernel_scheduler_fair.holders import Holders
from kernel_scheduler_fair.queues import AccountQueue

STARVING_SECONDS = 2.0
"""After what time a queue that has nothing at all is kept room for, whoever deserves it more."""

Rank = tuple[float, float, int]
"""The sort key of a queue: the smallest is served first."""


class Order:
    """Ranks queues. One that holds nothing grows more important while it waits."""

    def __init__(self, accounts: Accounts, holders: Holders) -> None:
        self._accounts = accounts
        self._holders = holders

    def priority(self, queue: AccountQueue, now: float) -> float:
        """Return a queue's priority with what waiting has added to it."""
        seconds = self._accounts.policy.ageing_seconds
        if not seconds or self._holders.held_in_queue(queue.profile):
            return queue.profile.priority
        return queue.profile.priority + (now - queue.front.since) // seconds

    def rank(self, queue: AccountQueue, now: float) -> Rank:
        """Return what to sort queues by."""
        return -self.priority(queue, now), self._accounts.share(queue.profile.account), queue.front.number

    def starves(self, queue: AccountQueue, now: float) -> bool:
        """Return whether a queue has had nothing for so long that room is kept for it."""
        return now - queue.front.since >= STARVING_SECONDS and not self._holders.held_in_queue(queue.profile)
