"""Add up the reports of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kernel_spec.ids import NodeId
from kernel_spec.resources import Amounts, quantities


def sum_of_amounts(amounts: Iterable[Amounts]) -> dict[str, float]:
    """Return the sums of resources, in plain quantities."""
    total: dict[str, int] = {}
    for one in amounts:
        for name, units in one.items():
            total[name] = total.get(name, 0) + units
    return quantities(total)


def sum_of_stores(reports: Mapping[NodeId, Any]) -> dict[str, int]:
    """Return the sums of the nodes' stores."""
    total: dict[str, int] = {}
    for report in reports.values():
        for name, value in report["store"].items():
            total[name] = total.get(name, 0) + value
    return total


def memory_of(reports: Mapping[NodeId, Any]) -> dict[str, Any]:
    """Return the nodes' reports of their memory, by node id (hexadecimal)."""
    return {node.hex(): report["memory"] for node, report in reports.items()}
