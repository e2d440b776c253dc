"""What a cluster needs and has at one moment, as its head answers "demand"."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.placement import DEFAULT, Placement, conditions, placement_of
from kernel_spec.resources import Amounts, amounts

ALIVE, DRAINING = "ALIVE", "DRAINING"


@dataclass(frozen=True, slots=True)
class WaitingShape:
    """Requests that want the same, in the same kind of place: how many wait, and the tasks behind them."""

    wanted: Amounts
    placement: Placement = DEFAULT
    requests: int = 1
    backlog: int = 0
    backlog_seconds: float = 0.0
    names: Sequence[str] = ()

    def workers(self, within: float) -> int:
        """Return how many workers would serve what waits: all at once, or what is behind it within so many seconds."""
        if math.isinf(self.backlog_seconds):
            return self.requests + self.backlog
        return self.requests + min(self.backlog, math.ceil(self.backlog_seconds / within))


@dataclass(frozen=True, slots=True)
class WaitingGroup:
    """A placement group of which some bundles wait: all of them by number, and the nodes of those that are placed.

    `conditions` are the conditions on the labels of each bundle's node, by number.
    """

    id: str
    strategy: str
    bundles: Mapping[int, Amounts]
    placed: Mapping[int, str] = field(default_factory=dict)
    placements: Mapping[int, Placement] = field(default_factory=dict)

    def waiting(self) -> list[int]:
        """Return the numbers of the bundles that wait."""
        return [number for number in self.bundles if number not in self.placed]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node of the cluster. `idle_seconds` is for how long it has held nothing; None while it does.

    `provider_id` names its machine; it is empty for a node that was started by hand.
    """

    id: str
    total: Amounts
    available: Amounts
    provider_id: str = ""
    is_head: bool = False
    state: str = ALIVE
    labels: Mapping[str, str] = field(default_factory=dict)
    idle_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What waits, what was `asked` for in advance, and the nodes that there are."""

    shapes: Sequence[WaitingShape] = ()
    groups: Sequence[WaitingGroup] = ()
    asked: Sequence[Amounts] = ()
    nodes: Sequence[NodeView] = ()


def snapshot_of(answer: Mapping[str, Any]) -> Snapshot:
    """Return the head's answer to "demand" as a snapshot."""
    return Snapshot(
        shapes=[
            WaitingShape(
                amounts(row["wanted"]),
                placement_of(row["strategy"]),
                row["requests"],
                row["backlog"],
                row["backlog_seconds"],
                tuple(row["names"]),
            )
            for row in answer["shapes"]
        ],
        groups=[_group(row) for row in answer["groups"]],
        asked=[amounts(bundle) for row in answer["asked"] for bundle in row["bundles"]],
        nodes=[
            NodeView(
                row["node_id"],
                amounts(row["total"]),
                amounts({name: max(0.0, free) for name, free in row["available"].items()}),
                row["provider_id"],
                row["is_head"],
                row["state"],
                row["labels"],
                row["idle_seconds"],
            )
            for row in answer["nodes"]
        ],
    )


def _group(row: Mapping[str, Any]) -> WaitingGroup:
    placements = {number: Placement(hard=conditions(wanted)) for number, wanted in enumerate(row["labels"]) if wanted}
    return WaitingGroup(
        row["placement_group_id"],
        row["strategy"],
        {int(number): amounts(bundle) for number, bundle in row["bundles"].items()},
        {int(number): node for number, node in row["bundles_to_node_id"].items()},
        placements,
    )
