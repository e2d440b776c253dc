"""Placement groups in local mode: parts of the one node, set aside.

A group that fits is placed at once. One that fits only later is placed when others have finished, and one that never
fits explains why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from kernel.runtime.group_limits import check_fit
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import KernelError, NameTakenError, PlacementGroupRemovedError
from kernel_spec.ids import NodeId
from kernel_spec.packing import Misfit, pack
from kernel_spec.resources import Allocation, Amounts, ResourcePool, describe, quantities

PENDING = "PENDING"
CREATED = "CREATED"
REMOVED = "REMOVED"

KEPT_REMOVED = 1000
"""Number of removed groups that are remembered, for late questions."""


@dataclass(slots=True, eq=False)
class LocalGroup:
    """Holds one group. `pools` are its bundles once they are placed, `inside` counts the tasks and actors in them."""

    id: str
    bundles: Sequence[Amounts]
    strategy: str
    name: str
    namespace: str
    detached: bool
    right_node: bool = True
    """Whether the one node has the labels that all bundles require."""
    state: str = PENDING
    cause: str = ""
    held: list[Allocation] = field(default_factory=list)
    pools: list[ResourcePool] = field(default_factory=list)
    inside: int = 0
    waiters: list[Callable[[KernelError | None], None]] = field(default_factory=list)

    @property
    def label(self) -> str:
        """The group's name in messages."""
        return f"placement group {self.name or self.id!r}"

    def row(self, node: str) -> dict[str, Any]:
        """Return what is told about it."""
        return {
            "placement_group_id": self.id,
            "name": self.name,
            "namespace": self.namespace,
            "strategy": self.strategy,
            "state": self.state,
            "bundles": {index: quantities(bundle) for index, bundle in enumerate(self.bundles)},
            "bundles_to_node_id": dict.fromkeys(range(len(self.pools)), node) if self.state == CREATED else {},
            "is_detached": self.detached,
            "cause": self.cause,
        }


class LocalGroups:
    """Holds the groups of the one node, which take from its `pool`. Every method runs under the runtime's lock."""

    def __init__(self, pool: ResourcePool) -> None:
        self.groups: dict[str, LocalGroup] = {}
        self._pool = pool
        self._node = NodeId(b"")
        self._homes: dict[int, tuple[LocalGroup, ResourcePool]] = {}
        """By identity, the allocations that come from bundles."""

    # -- life ------------------------------------------------------------------------------------------------------

    def create(self, group: LocalGroup) -> None:
        """Take a new group, and place it if there is room. Raises NameTakenError."""
        if group.name and self.find(group.namespace, group.name) is not None:
            raise NameTakenError(
                f"a placement group named {group.name!r} lives in namespace {group.namespace!r}; use "
                f"get_placement_group({group.name!r}), remove that one first, or take another name"
            )
        self.groups[group.id] = group
        self.place_waiting()

    def find(self, namespace: str, name: str) -> LocalGroup | None:
        """Return the living group of that name."""
        for group in self.groups.values():
            if (group.namespace, group.name) == (namespace, name) and group.state != REMOVED:
                return group
        return None

    def place_waiting(self) -> None:
        """Place what fits now, first come, first served."""
        for group in self.groups.values():
            if group.state == PENDING and group.right_node:
                packed = pack(dict(enumerate(group.bundles)), group.strategy, {self._node: self._pool})
                if not isinstance(packed, Misfit):
                    group.held = [bundle.allocation for bundle in packed]
                    group.pools = [ResourcePool.of(held, self._pool.device_resources) for held in group.held]
                    group.state = CREATED
                    self._tell(group, None)

    def remove(self, id: str, cause: str) -> None:
        """Remove a group. Its resources are freed once no task or actor runs in it any more."""
        group = self.groups.get(id)
        if group is not None and group.state != REMOVED:
            group.state, group.cause = REMOVED, cause
            self._tell(group, self._removed(group))
            self._free(group)
            over = [group.id for group in self.groups.values() if group.state == REMOVED and not group.inside]
            for old in over[:-KEPT_REMOVED]:
                del self.groups[old]

    def when_placed(self, id: str, then: Callable[[KernelError | None], None]) -> None:
        """Call `then` once a group is placed, or with the error that says why it never will be."""
        group = self.groups.get(id)
        if group is None:
            then(PlacementGroupRemovedError(f"placement group {id!r} is not known (any more)"))
        elif group.state == PENDING:
            group.waiters.append(then)
        else:
            then(self._removed(group) if group.state == REMOVED else None)

    def _tell(self, group: LocalGroup, error: KernelError | None) -> None:
        waiters, group.waiters = group.waiters, []
        for then in waiters:
            then(error)

    def _removed(self, group: LocalGroup) -> PlacementGroupRemovedError:
        return PlacementGroupRemovedError(f"{group.label} is gone: {group.cause}")

    def _free(self, group: LocalGroup) -> None:
        if group.state == REMOVED and not group.inside:
            held, group.held = group.held, []
            for allocation in held:
                self._pool.release(allocation)

    # -- what runs inside ------------------------------------------------------------------------------------------

    def acquire(self, strategy: Mapping[str, Any], wanted: Amounts) -> Allocation | None:
        """Take `wanted` from a bundle, or return None and change nothing."""
        group = self.groups.get(strategy["group"])
        if group is None or group.state != CREATED:
            return None
        bundle = strategy["bundle"]
        for pool in group.pools if bundle < 0 else group.pools[bundle : bundle + 1]:
            allocation = pool.acquire(wanted)
            if allocation is not None:
                self._homes[id(allocation)] = group, pool
                group.inside += 1
                return allocation
        return None

    def pool_of(self, allocation: Allocation) -> ResourcePool:
        """Return where an allocation comes from: a bundle, or the node."""
        home = self._homes.get(id(allocation))
        return home[1] if home is not None else self._pool

    def release(self, allocation: Allocation) -> None:
        """Give back, to the bundle or the node."""
        home = self._homes.pop(id(allocation), None)
        if home is None:
            self._pool.release(allocation)
            return
        group, pool = home
        pool.release(allocation)
        group.inside -= 1
        self._free(group)

    # -- questions -------------------------------------------------------------------------------------------------

    def refusal(self, name: str, strategy: Mapping[str, Any], wanted: Amounts) -> KernelError | None:
        """Return why `name` can't run in a group, now or later; None when it may."""
        group = self.groups.get(strategy["group"])
        if group is None:
            known = f"placement group {strategy['group']!r}, which is not known (any more)"
            return PlacementGroupRemovedError(f"{name} can't run in {known}")
        if group.state == REMOVED:
            return PlacementGroupRemovedError(f"{name} can't run in {group.label}: {group.cause}")
        return check_fit(name, wanted, strategy["bundle"], group.label, group.bundles)

    def why_never(self, id: str) -> str:
        """Return why a group will never be placed, or nothing."""
        group = self.groups.get(id)
        if group is None or group.state != PENDING:
            return ""
        if not group.right_node:
            return f"the one node has not the labels that the bundles of {group.label} want"
        packed = pack(dict(enumerate(group.bundles)), group.strategy, {self._node: self._pool.emptied()})
        return f"{group.label} does not fit on the one node: {packed.text}" if isinstance(packed, Misfit) else ""

    def why_not_yet(self, strategy: Mapping[str, Any], wanted: Amounts) -> str:
        """Return in words why there is no room in a group yet."""
        group = self.groups[strategy["group"]]
        if group.state == PENDING:
            return self.explain(group.id)
        return f"it wants {describe(wanted)}, and what runs in {group.label} leaves no room for that now"

    def explain(self, id: str) -> str:
        """Say where a group is, or what it waits for."""
        group = self.groups.get(id)
        if group is None:
            return "no such placement group is known (any more)"
        if group.state == REMOVED:
            return f"{group.label} is gone: {group.cause}"
        if group.state == CREATED:
            return f"{group.label} is placed, in this process"
        wanted = "; ".join(map(describe, group.bundles))
        waits = f"{group.label} is {PENDING}: it waits until others have given back what it wants: {wanted}"
        return self.why_never(id) or waits
