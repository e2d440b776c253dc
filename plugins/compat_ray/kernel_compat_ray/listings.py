"""`ray.util.state`: lists of what a session has, each row a mapping whose keys are attributes, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import kernel

_ALL = 1_000_000
"""A limit of rows that none has."""
_STATES = {"STARTING": "PENDING_CREATION", "WAITING": "DEPENDENCIES_UNREADY"}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: str(left).lower() == str(right).lower(),
    "!=": lambda left, right: str(left).lower() != str(right).lower(),
}


class Row(dict[str, Any]):
    """A row, as a mapping and as an object."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def list_actors(
    address: str | None = None, filters: Sequence[Any] | None = None, limit: int = 100, **others: Any
) -> list[Row]:
    """Return a row per actor."""
    rows = (
        {
            **row,
            "state": _STATES.get(row["state"], row["state"]),
            "ray_namespace": row["namespace"],
            "num_restarts": row["restarts"],
            "is_detached": row["detached"],
            "death_cause": row["cause"],
        }
        for row in kernel.actors()
    )
    return _chosen(rows, filters, limit)


def list_nodes(
    address: str | None = None, filters: Sequence[Any] | None = None, limit: int = 100, **others: Any
) -> list[Row]:
    """Return a row per node."""
    rows = (
        {
            "node_id": row["NodeID"],
            "node_ip": row["NodeManagerAddress"],
            "node_name": row["NodeManagerHostname"],
            "state": "ALIVE" if row["Alive"] else "DEAD",
            "state_message": row["Cause"],
            "is_head_node": index == 0,
            "resources_total": row["Resources"],
            "labels": row["Labels"],
        }
        for index, row in enumerate(kernel.nodes())
    )
    return _chosen(rows, filters, limit)


def list_placement_groups(
    address: str | None = None, filters: Sequence[Any] | None = None, limit: int = 100, **others: Any
) -> list[Row]:
    """Return a row per placement group."""
    return _chosen(kernel.placement_group_table().values(), filters, limit)


def list_tasks(
    address: str | None = None, filters: Sequence[Any] | None = None, limit: int = 100, **others: Any
) -> list[Row]:
    """Return a row per call that has ended, within about a second of its end."""
    rows = (
        {
            "task_id": event["args"]["task_id"],
            "name": event["name"],
            "state": "FAILED" if event["args"].get("failed") else "FINISHED",
            "worker_pid": event["pid"],
            "start_time_ms": event["ts"] / 1000,
            "end_time_ms": (event["ts"] + event["dur"]) / 1000,
            "type": "ACTOR_TASK" if "." in event["name"] else "NORMAL_TASK",
        }
        for event in kernel.timeline() or ()
        if event.get("cat") == "task"
    )
    return _chosen(rows, filters, limit)


def get_actor(id: str, address: str | None = None, **others: Any) -> Row | None:
    """Return the row of one actor, or None."""
    return _one(list_actors(), "actor_id", id)


def get_node(id: str, address: str | None = None, **others: Any) -> Row | None:
    """Return the row of one node, or None."""
    return _one(list_nodes(), "node_id", id)


def get_placement_group(id: str, address: str | None = None, **others: Any) -> Row | None:
    """Return the row of one placement group, or None."""
    return _one(list_placement_groups(), "placement_group_id", id)


def actors(actor_id: str | None = None) -> dict[str, Any]:
    """Return id to row of every actor, or the row of one, as `ray.actors()` did."""
    rows = {
        row["actor_id"]: {**row, "ActorID": row["actor_id"], "State": row["state"]} for row in list_actors(limit=_ALL)
    }
    return rows if actor_id is None else rows[actor_id]


def summarize_tasks(address: str | None = None, **others: Any) -> dict[str, Any]:
    """Return how many calls have ended, by name and state."""
    return _summary(list_tasks(limit=_ALL), "name", "func_or_class_name")


def summarize_actors(address: str | None = None, **others: Any) -> dict[str, Any]:
    """Return how many actors there are, by class and state."""
    return _summary(list_actors(limit=_ALL), "class_name", "class_name")


def _summary(rows: Sequence[Row], key: str, label: str) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for name in sorted({row[key] for row in rows}):
        states = Counter(row["state"] for row in rows if row[key] == name)
        summary[name] = {label: name, "state_counts": dict(states)}
    return {"cluster": {"summary": summary}}


def _one(rows: Sequence[Row], key: str, value: str) -> Row | None:
    return next((row for row in rows if row[key] == value), None)


def _chosen(rows: Iterable[Mapping[str, Any]], filters: Sequence[Any] | None, limit: int) -> list[Row]:
    found = [Row(row) for row in rows]
    for name, comparison, value in filters or ():
        if comparison not in _COMPARISONS:
            raise ValueError(f"a filter is (key, '=' or '!=', value), not with {comparison!r}")
        found = [row for row in found if _COMPARISONS[comparison](row.get(name), value)]
    return found[:limit]
