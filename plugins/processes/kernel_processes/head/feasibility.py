"""Refuse requests for workers that can never be served."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernel.runtime.group_limits import check_fit
from kernel_processes.head.groups import REMOVED, GroupRecord
from kernel_spec.errors import InfeasibleError, KernelError, OptionError, PlacementGroupRemovedError
from kernel_spec.ids import GroupId, NodeId
from kernel_spec.placement import placement_of
from kernel_spec.scheduling import LeaseRequest


def why_infeasible(
    request: LeaseRequest, groups: Mapping[GroupId, GroupRecord], why_gone: Callable[[NodeId], str]
) -> KernelError | None:
    """Return the error for a request that can never be served; None when it may be served.

    `why_gone(node)` returns why a node is gone for good, or "".
    """
    name = request.name if request.for_actor else f"{request.name}()"
    if request.group is not None:
        return _in_group(name, request, groups.get(request.group))
    placement = placement_of(request.strategy)
    if placement.problem:
        return OptionError(f"{name} can't be placed: {placement.problem}")
    gone = why_gone(placement.node) if placement.node is not None and not placement.soft else ""
    if not gone or placement.node is None:
        return None
    return InfeasibleError(
        f"{name} may run only on node {placement.node.hex()}, and {gone}; "
        "choose one of kernel.nodes(), or let others do with soft=True"
    )


def _in_group(name: str, request: LeaseRequest, record: GroupRecord | None) -> KernelError | None:
    if record is None:
        group = (request.group or b"").hex()
        return PlacementGroupRemovedError(
            f"{name} can't run in placement group {group!r}, which is not known (any more)"
        )
    if record.state == REMOVED:
        return PlacementGroupRemovedError(f"{name} can't run in {record.label}: {record.cause}")
    return check_fit(name, request.wanted, request.bundle, record.label, record.request.bundles)
