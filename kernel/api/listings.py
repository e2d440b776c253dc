"""List the contents of a session: actors, tasks, nodes, workers, jobs, objects, placement groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel.api.listing_filters import Filter, check_filters, chosen
from kernel.api.session import ensure_session
from kernel.logs import Logger
from kernel.runtime.task_rows import all_tasks
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError

Row = dict[str, Any]
Ask = Callable[..., Any]
"""Asks the session a question: `ask(method, *arguments)` returns the answer."""


@dataclass(frozen=True, slots=True)
class ListingKind:
    """How one kind of thing is listed.

    `rows(ask)` returns all rows, and `id` is the column of their ids. `columns` are always shown and `details` on
    request; `unfiltered` are those that can't be filtered by. Summaries are grouped by the column `group_by`, "" if
    the kind has no summary.
    """

    rows: Callable[[Ask], list[Row]]
    id: str
    columns: tuple[str, ...]
    details: tuple[str, ...] = ()
    unfiltered: tuple[str, ...] = ()
    group_by: str = ""


def list_state(
    kind: str, filters: Sequence[Filter] | None = None, limit: int = 100, detail: bool = False
) -> list[dict[str, Any]]:
    """Return a row per actor, task, node and so on of the session, at most `limit`.

    `kind` is "actors", "tasks", "nodes", "workers", "jobs", "objects" or "placement-groups". A row must match all
    `filters`, which are `(column, "=" or "!=", value)`; text is compared without regard to case. With `detail` rows
    have more columns. Raises OptionError for an unknown kind, a bad filter or a bad limit.
    """
    return rows_of(ensure_session().query, kind, filters, limit, detail)


def get_state(kind: str, id: str) -> dict[str, Any] | None:
    """Return the row with the id `id`, with all columns, or None when there is no such row. See `list_state`."""
    return row_of(ensure_session().query, kind, id)


def summarize_state(kind: str) -> dict[str, dict[str, Any]]:
    """Count "actors" by class, "tasks" by function, or "objects" by call site, in each state.

    Raises OptionError for another kind.
    """
    return summary_of(ensure_session().query, kind)


def rows_of(ask: Ask, kind: str, filters: Sequence[Filter] | None, limit: int, detail: bool) -> list[Row]:
    """See `list_state`; `ask` asks the session."""
    known = kind_of(kind)
    columns = (*known.columns, *known.details)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise OptionError(f"limit must be a count, zero or more, not {limit!r}")
    checked = check_filters(kind, filters, [name for name in columns if name not in known.unfiltered])
    rows = chosen(known.rows(ask), checked)[:limit]
    shown = columns if detail else known.columns
    return [{name: row.get(name) for name in shown} for row in rows]


def row_of(ask: Ask, kind: str, id: str) -> Row | None:
    """See `get_state`; `ask` asks the session."""
    known = kind_of(kind)
    if not isinstance(id, str) or not id:
        raise OptionError(f"{kind} are found by {known.id}, a non-empty string, not {id!r}")
    columns = (*known.columns, *known.details)
    found = next((row for row in known.rows(ask) if row[known.id] == id), None)
    return None if found is None else {name: found.get(name) for name in columns}


def summary_of(ask: Ask, kind: str) -> dict[str, dict[str, Any]]:
    """See `summarize_state`; `ask` asks the session."""
    known = kind_of(kind)
    if not known.group_by:
        able = ", ".join(name for name, one in KINDS.items() if one.group_by)
        raise OptionError(f"there is no summary of {kind}; there is one of {able}")
    rows = known.rows(ask)
    summary: dict[str, dict[str, Any]] = {}
    for name in sorted({str(row[known.group_by]) for row in rows}):
        of_name = [row for row in rows if str(row[known.group_by]) == name]
        kinds = {"type": of_name[0]["type"]} if kind == "tasks" else {}
        counts = dict(Counter(row["state"] for row in of_name))
        summary[name] = {known.group_by: name, **kinds, "state_counts": counts}
        if kind == "objects":
            summary[name]["total_bytes"] = sum(row["object_size"] or 0 for row in of_name)
    return summary


def kind_of(kind: str) -> ListingKind:
    """Return how a kind is listed; `_` may be written for `-`. Raises OptionError for an unknown kind."""
    found = KINDS.get(kind.replace("_", "-")) if isinstance(kind, str) else None
    if found is None:
        raise OptionError(f"there is no list of {kind!r}; there are lists of {', '.join(KINDS)}")
    return found


# -- rows --------------------------------------------------------------------------------------------------------------


def _actors(ask: Ask) -> list[Row]:
    renamed = {"restarts": "num_restarts", "detached": "is_detached", "cause": "death_cause"}
    return [{renamed.get(name, name): value for name, value in row.items()} for row in ask("actors")]


def _tasks(ask: Ask) -> list[Row]:
    found = ask("tasks")
    for pid, node in found["silent"].values():
        Logger("kernel").warning("a process did not answer in time: its tasks are missing here", pid=pid, node=node)
    return all_tasks(found["ended"], found["waiting"], found["workers"])


def _nodes(ask: Ask) -> list[Row]:
    return [
        {
            "node_id": row["NodeID"],
            "node_ip": row["NodeManagerAddress"],
            "is_head_node": row["IsHead"],
            "state": "ALIVE" if row["Alive"] else "DEAD",
            "node_name": row["NodeManagerHostname"],
            "state_message": row.get("Cause") or None,
            "resources_total": row["Resources"],
            "resources_available": row["Available"],
            "labels": row["Labels"],
        }
        for row in ask("nodes")
    ]


def _workers(ask: Ask) -> list[Row]:
    places = {row["NodeID"]: row["NodeManagerAddress"] for row in ask("nodes")}
    workers = [{**row, "worker_type": "WORKER", "worker_id": row["worker_id"]} for row in ask("workers")]
    drivers = [
        {
            **row,
            "worker_id": row["job_id"],
            "worker_type": "DRIVER",
            "state": "driver",
            "name": row["script"],
            "node_id": row.get("node_id", ""),
        }
        for row in ask("jobs")
        if not row["ended"]
    ]
    return [{**row, "is_alive": True, "ip": places.get(row["node_id"], "")} for row in (*drivers, *workers)]


def _jobs(ask: Ask) -> list[Row]:
    return [
        {
            "job_id": row["job_id"],
            "type": "DRIVER",
            "status": "SUCCEEDED" if row["ended"] else "RUNNING",
            "entrypoint": row["script"],
            "pid": row["pid"],
            "namespace": row["namespace"],
            "driver_node_id": row.get("node_id") or None,
            "start_time": int(row["started"] * 1000),
            "end_time": int((row["ended"] or 0) * 1000),
        }
        for row in ask("jobs")
    ]


def _objects(ask: Ask) -> list[Row]:
    found = ask("memory", 0)
    for pid in found["silent"]:
        Logger("kernel").warning("a process did not answer in time: its objects are missing here", pid=pid)
    return [
        {
            "object_id": bytes(row[0]).hex(),
            "object_size": row[1],
            "state": row[2],
            "reference_type": row[3],
            "call_site": row[4],
            "type": process["role"].upper(),
            "pid": process["pid"],
        }
        for process in found["processes"]
        for row in process["rows"]
    ]


def _placement_groups(ask: Ask) -> list[Row]:
    return [
        {
            **row,
            "creator_job_id": row["job_id"],
            "bundles": [
                {
                    "bundle_index": index,
                    "unit_resources": bundle,
                    "node_id": row["bundles_to_node_id"].get(index),
                }
                for index, bundle in sorted(row["bundles"].items())
            ],
        }
        for row in ask("placement_groups")
    ]


_TASK_COLUMNS = (
    "task_id", "attempt_number", "name", "state", "job_id", "actor_id", "type", "func_or_class_name", "parent_task_id",
    "node_id", "worker_id", "worker_pid", "error_type",
)  # fmt: skip

KINDS: Mapping[str, ListingKind] = {
    "actors": ListingKind(
        _actors,
        "actor_id",
        ("actor_id", "class_name", "state", "job_id", "name", "node_id", "pid", "namespace"),
        ("num_restarts", "is_detached", "death_cause", "required_resources", "placement_group_id"),
        ("required_resources",),
        group_by="class_name",
    ),
    "tasks": ListingKind(
        _tasks,
        "task_id",
        _TASK_COLUMNS,
        ("required_resources", "start_time_ms", "end_time_ms", "error_message"),
        ("required_resources", "start_time_ms", "end_time_ms", "error_message"),
        group_by="func_or_class_name",
    ),
    "nodes": ListingKind(
        _nodes,
        "node_id",
        ("node_id", "node_ip", "is_head_node", "state", "node_name", "state_message"),
        ("resources_total", "resources_available", "labels"),
        ("resources_total", "resources_available", "labels"),
    ),
    "workers": ListingKind(
        _workers,
        "worker_id",
        ("worker_id", "is_alive", "worker_type", "state", "name", "job_id", "node_id", "ip", "pid"),
    ),
    "jobs": ListingKind(
        _jobs,
        "job_id",
        ("job_id", "type", "status", "entrypoint", "pid", "namespace"),
        ("driver_node_id", "start_time", "end_time"),
    ),
    "objects": ListingKind(
        _objects,
        "object_id",
        ("object_id", "object_size", "state", "reference_type", "call_site", "type", "pid"),
        group_by="call_site",
    ),
    "placement-groups": ListingKind(
        _placement_groups,
        "placement_group_id",
        ("placement_group_id", "name", "creator_job_id", "state"),
        ("namespace", "strategy", "bundles", "is_detached", "cause"),
        ("bundles",),
    ),
}
