"""List what a session has, by `ray.util.state`: each row is a mapping whose keys are attributes, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import kernel
from kernel_compat_ray.labels import to_ray
from kernel_spec.errors import OptionError

_ALL = 1_000_000
"""A limit that no list of rows reaches."""
_STATES = {"STARTING": "PENDING_CREATION", "WAITING": "DEPENDENCIES_UNREADY"}
_COLUMNS = {"actors": {"ray_namespace": "namespace"}, "objects": {"task_status": "state"}}
"""Ray's names of columns to kernel's."""
_ABSENT = {
    "actors": ("repr_name", "call_site", "label_selector"),
    "tasks": ("creation_time_ms", "placement_group_id", "call_site", "label_selector", "runtime_env_info"),
    "nodes": ("start_time_ms", "end_time_ms"),
    "workers": ("exit_type", "exit_detail", "start_time_ms", "end_time_ms"),
    "jobs": ("submission_id", "message", "error_type", "metadata", "runtime_env"),
    "objects": ("attempt_number", "ip"),
    "placement-groups": ("stats",),
}
"""Columns of Ray's with values that are not known here, and are None."""


class Row(dict[str, Any]):
    """Is a row, as a mapping and as an object."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def asdict(self) -> dict[str, Any]:
        """Return it as a plain mapping."""
        return dict(self)


def _lister(kind: str, what: str) -> Callable[..., list[Row]]:
    def list_them(
        address: str | None = None,
        filters: Sequence[Any] | None = None,
        limit: int = 100,
        timeout: int = 30,
        detail: bool = False,
        raise_on_missing_output: bool = True,
        _explain: bool = False,
    ) -> list[Row]:
        _check_timeout(timeout)
        return _listed(kind, filters, limit)

    list_them.__name__ = list_them.__qualname__ = f"list_{kind.replace('-', '_')}"
    list_them.__doc__ = f"""Return a row per {what}, at most `limit`, for which all `filters` hold.

    A filter is (column, "=" or "!=", value). Raises OptionError (`RayStateApiException`) for one that can't be.
    """
    return list_them


def _getter(kind: str, name: str, what: str) -> Callable[..., Row | None]:
    def get_it(id: Any, address: str | None = None, timeout: int = 30, _explain: bool = False) -> Row | None:
        _check_timeout(timeout)
        if isinstance(id, kernel.ObjectRef):
            id = id.hex()[:32]
        row = kernel.get_state(kind, id)
        return None if row is None else _in_words_of_ray(kind, row)

    get_it.__name__ = get_it.__qualname__ = f"get_{name}"
    get_it.__doc__ = f"Return the row of one {what}, None when there is none of that id."
    return get_it


list_actors = _lister("actors", "actor")
list_jobs = _lister("jobs", "program")
list_nodes = _lister("nodes", "node")
list_objects = _lister("objects", "reference to an object in each process")
list_placement_groups = _lister("placement-groups", "placement group")
list_tasks = _lister("tasks", "task or call: those that wait or run, and the last that have ended")
list_workers = _lister("workers", "worker and driver")

get_actor = _getter("actors", "actor", "actor")
get_job = _getter("jobs", "job", "program")
get_node = _getter("nodes", "node", "node")
get_placement_group = _getter("placement-groups", "placement_group", "placement group")
get_task = _getter("tasks", "task", "task, also of its ObjectRef")
get_worker = _getter("workers", "worker", "worker")


def get_objects(id: str, address: str | None = None, timeout: int = 30, _explain: bool = False) -> list[Row] | None:
    """Return a row per process that refers to an object, None when none does."""
    _check_timeout(timeout)
    return _listed("objects", [("object_id", "=", id)], _ALL) or None


def actors(actor_id: str | None = None) -> dict[str, Any]:
    """Return id to row of every actor, or the row of one, as `ray.actors()` did."""
    rows = {
        row["actor_id"]: {**row, "ActorID": row["actor_id"], "State": row["state"]} for row in list_actors(limit=_ALL)
    }
    return rows if actor_id is None else rows[actor_id]


def summarize_tasks(address: str | None = None, timeout: int = 30, _explain: bool = False) -> dict[str, Any]:
    """Return how many tasks and calls there are, by name and state."""
    found = kernel.summarize_state("tasks")
    rows = kernel.list_state("tasks", limit=_ALL)
    kinds = {"tasks": "NORMAL_TASK", "actor_tasks": "ACTOR_TASK", "actor_scheduled": "ACTOR_CREATION_TASK"}
    totals = {f"total_{name}": sum(row["type"] == kind for row in rows) for name, kind in kinds.items()}
    return {"cluster": {"summary": found, "summary_by": "func_name", **totals}}


def summarize_actors(address: str | None = None, timeout: int = 30, _explain: bool = False) -> dict[str, Any]:
    """Return how many actors there are, by class and state."""
    found = kernel.summarize_state("actors")
    for row in found.values():
        counts: dict[str, int] = {}
        for state, count in row["state_counts"].items():
            counts[_STATES.get(state, state)] = counts.get(_STATES.get(state, state), 0) + count
        row["state_counts"] = counts
    total = sum(sum(row["state_counts"].values()) for row in found.values())
    return {"cluster": {"summary": found, "summary_by": "class", "total_actors": total}}


def summarize_objects(address: str | None = None, timeout: int = 30, _explain: bool = False) -> dict[str, Any]:
    """Return how many objects there are, and how large they are, by the line that made them."""
    rows = kernel.list_state("objects", limit=_ALL)
    summary: dict[str, Any] = {}
    for name in sorted({row["call_site"] for row in rows}):
        of_site = [row for row in rows if row["call_site"] == name]
        summary[name] = {**_sizes(of_site), "total_num_workers": len({row["pid"] for row in of_site})}
        for column, label in (("state", "task_state_counts"), ("reference_type", "ref_type_counts")):
            values = [row[column] for row in of_site]
            summary[name][label] = {value: values.count(value) for value in sorted(set(values))}
    return {"cluster": {"summary": summary, "summary_by": "callsite", "callsite_enabled": True, **_sizes(rows)}}


def _sizes(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"total_objects": len(rows), "total_size_mb": sum(row["object_size"] or 0 for row in rows) / (1 << 20)}


def _listed(kind: str, filters: Any, limit: int) -> list[Row]:
    """Return rows in Ray's words; the filters may name columns and states as Ray does."""
    plain, states = filters, []
    if isinstance(filters, (list, tuple)) and all(isinstance(one, (list, tuple)) and len(one) == 3 for one in filters):
        names = _COLUMNS.get(kind, {})
        spelled = [(names.get(column, column), predicate, value) for column, predicate, value in filters]
        of_state = [kind == "actors" and one[0] == "state" and one[1] in ("=", "!=") for one in spelled]
        states = [one for one, later in zip(spelled, of_state, strict=True) if later]
        plain = [one for one, later in zip(spelled, of_state, strict=True) if not later]
    first = kernel.list_state(kind, plain, _ALL if states else limit, detail=True)
    rows = [_in_words_of_ray(kind, row) for row in first]
    for _, predicate, value in states:
        rows = [row for row in rows if (row["state"].lower() == str(value).lower()) == (predicate == "=")]
    return rows[:limit] if states else rows


def _in_words_of_ray(kind: str, row: dict[str, Any]) -> Row:
    found = {**dict.fromkeys(_ABSENT[kind]), **row}
    if kind == "actors":
        found["state"] = _STATES.get(row["state"], row["state"])
    if kind == "tasks":
        found["events"] = _events(row)
    if kind == "nodes":
        found["labels"] = to_ray(row["labels"])
    if kind == "jobs":
        found["driver_info"] = {"id": row["job_id"], "pid": str(row["pid"])}
    for theirs, ours in _COLUMNS.get(kind, {}).items():
        found[theirs] = found[ours]
    return Row(found)


def _events(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is known of when a task came into which state."""
    times = (("RUNNING", row["start_time_ms"]), (row["state"], row["end_time_ms"]))
    return [{"state": state, "created_ms": at} for state, at in times if at is not None]


def _check_timeout(timeout: Any) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, int):
        raise OptionError(f"timeout must be a whole number of seconds, not {timeout!r}")
