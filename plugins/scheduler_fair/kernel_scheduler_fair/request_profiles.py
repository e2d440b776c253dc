"""The terms of a request: its account, its priority and its shape."""

from __future__ import annotations

from collections.abc import Hashable

from kernel_scheduler_fair.accounts import Account, Accounts, priority_of
from kernel_spec.dataclass import dataclass
from kernel_spec.packing import total_of
from kernel_spec.placement import Placement, placement_of
from kernel_spec.resources import Amounts
from kernel_spec.scheduling import GroupRequest, LeaseRequest


class ProfileKey:
    """A hashable that remembers its hash: keys of many parts are looked up all the time."""

    __slots__ = ("_hash", "parts")

    def __init__(self, *parts: Hashable) -> None:
        self.parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProfileKey) and self.parts == other.parts


@dataclass(frozen=True, slots=True, eq=False)
class RequestProfile:
    """The terms that all requests in a queue share. `key` is the same for equal terms.

    `costs` is what the account is charged for one of them: nothing inside a group, whose bundles are paid for.
    `placement` is None for a group.
    """

    key: ProfileKey
    account: Account
    priority: float
    wanted: Amounts
    costs: Amounts
    placement: Placement | None


def lease_profile(accounts: Accounts, request: LeaseRequest) -> RequestProfile:
    """Return the terms of a request for a lease."""
    account, priority = accounts.of(request.job, request.hints), priority_of(request.hints)
    placement, wanted = placement_of(request.strategy), request.wanted
    key = ProfileKey(account.name, priority, frozenset(wanted.items()), placement, request.group, request.bundle)
    return RequestProfile(key, account, priority, wanted, {} if request.group is not None else wanted, placement)


def group_profile(accounts: Accounts, request: GroupRequest) -> RequestProfile:
    """Return the terms of a request for a group: no two groups have the same."""
    account, priority = accounts.of(request.job, request.hints), priority_of(request.hints)
    wanted = total_of(request.bundles)
    return RequestProfile(ProfileKey("group", request.id), account, priority, wanted, wanted, None)
