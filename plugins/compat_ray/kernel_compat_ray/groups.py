"""Make placement groups with the arguments of all generations."""

from __future__ import annotations

from typing import Any

import kernel
from kernel_compat_ray.deprecation import warn_ignored
from kernel_compat_ray.labels import to_kernel

_IGNORED = {
    "_max_cpu_fraction_per_node": "what a group may take of a node is not limited",
    "_soft_target_node_id": "the scheduler chooses the nodes",
}


def placement_group(
    bundles: list[dict[str, float]],
    strategy: str = "PACK",
    name: str = "",
    lifetime: str | None = None,
    *,
    bundle_label_selector: list[dict[str, str]] | None = None,
    **others: Any,
) -> kernel.PlacementGroup:
    """Reserve bundles of resources together; return the group at once."""
    for argument, value in others.items():
        if argument in _IGNORED and value not in (None, 1.0):
            warn_ignored(f"placement_group({argument}=...)", _IGNORED[argument])
        elif argument not in _IGNORED:
            raise TypeError(f"placement_group() got an unexpected argument {argument!r}")
    labels = [to_kernel(one) for one in bundle_label_selector] if isinstance(bundle_label_selector, list) else None
    return kernel.placement_group(
        bundles, strategy, name, lifetime, bundle_label_selector=labels or bundle_label_selector
    )


def placement_group_table(placement_group: kernel.PlacementGroup | None = None) -> dict[str, Any]:
    """Return id to row for every group, or the row of one."""
    return kernel.placement_group_table(placement_group)
