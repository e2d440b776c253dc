"""The ledger of this scheduler: besides who holds what, it keeps accounts and holders up to date."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from kernel_scheduler_fair.accounts import Account, Accounts
from kernel_scheduler_fair.holders import Holders
from kernel_scheduler_fair.request_profiles import RequestProfile, lease_profile
from kernel_spec.holdings import Group, Lease, NodePlace, Place
from kernel_spec.ids import LeaseId
from kernel_spec.node_index import IndexedLedger
from kernel_spec.packing import total_of
from kernel_spec.resources import CPU, Allocation, Amounts
from kernel_spec.scheduling import Grant, LeaseRequest


class FairLedger(IndexedLedger):
    """All nodes, leases and groups, and what each account is charged for them."""

    def __init__(self, accounts: Accounts, holders: Holders) -> None:
        super().__init__()
        self.on_end: Callable[[LeaseId], None] = lambda id: None
        """Called with each lease that is over."""
        self.relieved: set[Account] = set()
        """Accounts that may hold less than before; whoever has taken note clears it."""
        self._accounts = accounts
        self._holders = holders
        self._profile: RequestProfile | None = None

    def on_node(self, node: NodePlace) -> None:
        """Keep the totals of all nodes up to date."""
        super().on_node(node)
        self._accounts.set_node(node.node, node.pool.total if node.node in self.nodes else {})

    def on_lease(self, lease: Lease, granted: bool) -> None:
        """Charge an account for a lease, or end that."""
        if granted:
            self._holders.add(lease, self._profile or lease_profile(self._accounts, lease.request))
            self.charge_lease(lease)
            return
        self._holders.remove(lease)
        self._discharge(lease.request.id)
        self.on_end(lease.request.id)

    def grant_on(self, profile: RequestProfile, request: LeaseRequest, place: Place, allocation: Allocation) -> Grant:
        """Write down a grant as `grant` does, on terms that are known already."""
        self._profile = profile
        try:
            return self.grant(request, place, allocation)
        finally:
            self._profile = None

    def charge_lease(self, lease: Lease) -> None:
        """Charge for what a lease holds and has not lent. Inside a group, whose bundles are charged for, nothing."""
        if lease.request.group is not None:
            return
        account = self._holders.kind_of(lease).account
        self._accounts.charge(lease.request.id, account, lease_charge(lease))
        if lease.blocked:
            self.relieved.add(account)

    def charge_group(self, group: Group) -> None:
        """Charge for the bundles of a group that are placed."""
        request = group.request
        account = self._accounts.of(request.job, request.hints)
        self._accounts.charge(group_key(group), account, group_charge(group))
        self.relieved.add(account)

    def end_group(self, group: Group) -> None:
        """End the charge for a group that is removed."""
        self._discharge(group_key(group))

    def expected_charges(self) -> dict[Hashable, Amounts]:
        """Return what should be charged for, to compare."""
        leases: dict[Hashable, Amounts] = {
            id: lease_charge(lease) for id, lease in self.leases.items() if lease.request.group is None
        }
        groups = {group_key(group): group_charge(group) for group in self.groups.values() if group.bundles}
        return {what: held for what, held in (leases | groups).items() if held}

    def _discharge(self, what: Hashable) -> None:
        account = self._accounts.discharge(what)
        if account is not None:
            self.relieved.add(account)


def group_key(group: Group) -> Hashable:
    """Return what a group is charged under."""
    return "group", group.request.id


def lease_charge(lease: Lease) -> Amounts:
    """Return what a lease holds without the CPU that it has lent."""
    held = lease.grant.allocation.amounts
    return {name: left for name, units in held.items() if (left := units - (lease.lent if name == CPU else 0))}


def group_charge(group: Group) -> Amounts:
    """Return what the placed bundles of a group hold."""
    return total_of(place.bundle.allocation.amounts for place in group.bundles.values())
