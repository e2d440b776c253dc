"""Scheduling strategies as objects: where a task or actor may run, for `scheduling_strategy=`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel.api.placement_groups import PlacementGroup
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError
from kernel_spec.placement import DEFAULT_STRATEGY, NODE_AFFINITY, NODE_LABELS, PLACEMENT_GROUP, check_strategy


@dataclass(frozen=True)
class PlacementGroupSchedulingStrategy:
    """Run in a bundle of a placement group: in number `placement_group_bundle_index`, or (-1) in any that has room.

    With `placement_group_capture_child_tasks`, tasks and actors that are started from there without a strategy of their
    own run in the group, too; `placement_group=None` excludes them. Raises OptionError for an index outside of the
    group's bundles.
    """

    placement_group: PlacementGroup | None
    placement_group_bundle_index: int = -1
    placement_group_capture_child_tasks: bool = False

    def __post_init__(self) -> None:
        group, index = self.placement_group, self.placement_group_bundle_index
        if group is None:
            return
        if not isinstance(group, PlacementGroup):
            raise OptionError(f"placement_group must be a PlacementGroup or None, not {group!r}")
        if not isinstance(index, int) or isinstance(index, bool) or not -1 <= index < group.bundle_count:
            raise OptionError(
                f"placement_group_bundle_index must be -1 (any) or one of 0 to {group.bundle_count - 1}, the bundles "
                f"of {group!r}, not {index!r}"
            )

    def to_mapping(self) -> str | dict[str, Any]:
        """Return it as plain values."""
        if self.placement_group is None:
            return DEFAULT_STRATEGY
        return {
            "type": PLACEMENT_GROUP,
            "group": self.placement_group.id,
            "bundle": self.placement_group_bundle_index,
            "capture_child_tasks": bool(self.placement_group_capture_child_tasks),
        }


@dataclass(frozen=True)
class NodeAffinitySchedulingStrategy:
    """Run on the node with id `node_id` (hexadecimal, as in `kernel.nodes()`).

    With `soft` it may run on another node when that one is gone or can never hold it; otherwise the task or actor then
    fails with InfeasibleError. Raises OptionError for an invalid id.
    """

    node_id: str
    soft: bool

    def __post_init__(self) -> None:
        _check(self.to_mapping())

    def to_mapping(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"type": NODE_AFFINITY, "node": self.node_id, "soft": bool(self.soft)}


@dataclass(frozen=True)
class NodeLabelSchedulingStrategy:
    """Run on a node whose labels match all `hard` conditions, preferably on one that matches the `soft` ones, too.

    Both map a label to `"value"`, to a list of values, or to `{"in": [...]}`, `{"not_in": [...]}`, `{"exists": True}`.
    While no node matches, it waits for one. Raises OptionError for an invalid condition.
    """

    hard: Mapping[str, Any] | None = None
    soft: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.hard and not self.soft:
            raise OptionError("NodeLabelSchedulingStrategy needs conditions: give hard={...}, soft={...}, or both")
        _check(self.to_mapping())

    def to_mapping(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"type": NODE_LABELS, "hard": self.hard or {}, "soft": self.soft or {}}


def _check(strategy: Mapping[str, Any]) -> None:
    try:
        check_strategy(strategy)
    except ValueError as error:
        raise OptionError(str(error)) from None
