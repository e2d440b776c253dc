"""Waiting requests: one queue for each account, priority and shape."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import field

from kernel_scheduler_fair.accounts import Accounts
from kernel_scheduler_fair.request_profiles import ProfileKey, RequestProfile, group_profile, lease_profile
from kernel_spec.dataclass import dataclass
from kernel_spec.finding import distinct
from kernel_spec.holdings import Group
from kernel_spec.ids import GroupId, LeaseId
from kernel_spec.packing import total_of
from kernel_spec.resources import Amounts
from kernel_spec.scheduling import GroupRequest, LeaseRequest


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """A request in a queue. `number` counts arrivals, `since` is in seconds on the caller's clock."""

    request: LeaseRequest | GroupRequest
    number: int
    since: float


@dataclass(slots=True, eq=False)
class AccountQueue:
    """All requests of one account and priority that want the same in the same place, oldest first.

    A placement group has a queue of its own: what it lacks is what the queue wants, in `pieces`. `untried`: the front
    may fit somewhere, not yet tried. `capped`: not tried, because the account's quota is used up.
    """

    profile: RequestProfile
    wanted: Amounts
    costs: Amounts
    pieces: Sequence[Amounts]
    group: Group | None = None
    in_group: GroupId | None = None
    untried: bool = True
    capped: bool = False
    waiting: OrderedDict[LeaseId | GroupId, WaitingRequest] = field(default_factory=OrderedDict)

    @property
    def front(self) -> WaitingRequest:
        """The oldest request."""
        return next(iter(self.waiting.values()))


class AccountQueues:
    """All queues. Finding, joining and leaving one costs the same however long it is."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._queues: dict[ProfileKey, AccountQueue] = {}
        self._queue_of: dict[LeaseId | GroupId, AccountQueue] = {}
        self._arrivals = 0

    def __contains__(self, id: object) -> bool:
        return id in self._queue_of

    def __len__(self) -> int:
        return len(self._queue_of)

    def __iter__(self) -> Iterator[AccountQueue]:
        return iter(self._queues.values())

    def join(self, request: LeaseRequest, now: float) -> AccountQueue:
        """Put a request for a lease at the end of its queue and return the queue."""
        profile = lease_profile(self._accounts, request)
        queue = self._queues.get(profile.key)
        if queue is None:
            queue = self._queues[profile.key] = AccountQueue(
                profile, profile.wanted, profile.costs, [profile.wanted], in_group=request.group
            )
        self._put(queue, request, now)
        return queue

    def join_group(self, group: Group, now: float) -> AccountQueue:
        """Give a group that lacks bundles a queue, or say anew what it lacks, and return the queue."""
        queue = self._queue_of.get(group.request.id)
        if queue is None:
            profile = group_profile(self._accounts, group.request)
            queue = self._queues[profile.key] = AccountQueue(profile, profile.wanted, profile.costs, (), group)
            self._put(queue, group.request, now)
        lacking = group.waiting()
        queue.wanted = queue.costs = total_of(lacking.values())
        queue.pieces = distinct(lacking)
        queue.untried = True
        return queue

    def leave(self, id: LeaseId | GroupId) -> AccountQueue:
        """Take a waiting request out and return the queue it was in."""
        queue = self._queue_of.pop(id)
        del queue.waiting[id]
        if not queue.waiting:
            del self._queues[queue.profile.key]
        return queue

    def find(self, id: LeaseId | GroupId) -> AccountQueue | None:
        """Return the queue in which `id` waits."""
        return self._queue_of.get(id)

    def _put(self, queue: AccountQueue, request: LeaseRequest | GroupRequest, now: float) -> None:
        self._arrivals += 1
        queue.waiting[request.id] = WaitingRequest(request, self._arrivals, now)
        self._queue_of[request.id] = queue
