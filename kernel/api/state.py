"""Questions about the session: nodes, resources, timeline, explanations."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kernel.api.actor import ActorHandle
from kernel.api.placement_groups import PlacementGroup
from kernel.api.session import ensure_session
from kernel.logs import Logger
from kernel.runtime.current import find_runtime, get_runtime
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.process_title import worker_title
from kernel.runtime.timeline_events import events_of


def nodes() -> list[dict[str, Any]]:
    """Return a row per node, of those that live and the latest that have gone, in the order in which they joined.

    Each has `NodeID` (hexadecimal), `Alive`, `State` (ALIVE, DRAINING, DRAINED, DEAD) and, once it has gone, the
    `Cause`; `IsHead`, whether it is beside the head; `NodeManagerAddress`, `NodeManagerPort` and `NodeManagerHostname`;
    `Labels`; `Resources`, name to quantity of all that it offers (`CPU`; `memory` and `object_store_memory` in bytes;
    `GPU` and custom ones where it has some), and `Available`, what is free of each. One that has gone offers nothing.
    """
    return list(ensure_session().query("nodes"))


def actors(dead: bool = True) -> list[dict[str, Any]]:
    """Return a row per actor, of those that live and (`dead`) the latest that have died, of all programs.

    Each has `actor_id`, `class_name`, `name` and `namespace`; `state` (PENDING_CREATION, STARTING, ALIVE, RESTARTING,
    DEAD) and, once it is dead, the `cause`; `pid` and `node_id` of its process; `restarts`, `detached` and `job_id`.
    """
    return list(ensure_session().query("actors", dead))


def cluster_resources() -> dict[str, float]:
    """Return resource to total quantity, over all nodes."""
    return dict(ensure_session().query("cluster_resources"))


def available_resources() -> dict[str, float]:
    """Return resource to the quantity that is free now (and may not be in a moment); 0.0 where nothing is."""
    return dict(ensure_session().query("available_resources"))


def timeline(filename: str | None = None) -> list[dict[str, Any]] | None:
    """Return what ran when as Chrome trace events, or write them to `filename` for chrome://tracing.

    What is missing, because a process did not answer in time, is said in a warning that names it and its node.
    """
    found = ensure_session().query("timeline")
    events = events_of(found["told"])
    for pid, node in found["silent"].values():
        Logger("kernel").warning("a process did not answer in time: its calls are missing here", pid=pid, node=node)
    if filename is None:
        return events
    with open(filename, "w") as file:
        json.dump(events, file)
    return None


def errors(all_jobs: bool = False) -> list[dict[str, Any]]:
    """Return a row per failed task or call of this program whose result nobody has asked for, oldest first.

    Each has `task_id`, `name`, `type` and `message` of the error, `text` (the traceback, where it was shown in full),
    `time` (seconds since the epoch), `pid` and `node_id` of the process that made the call, and `job_id`. A failure is
    among them once nobody can ask for it any more, or nobody has for 5 s. With `all_jobs` those of all programs.
    """
    return [
        {
            "task_id": row["task"].hex(),
            **{name: row[name] for name in ("name", "type", "message", "text", "time", "pid")},
            "node_id": row["node"],
            "job_id": row["job"].hex(),
        }
        for row in ensure_session().query("failures", all_jobs)
    ]


def explain(what: ObjectRef | ActorHandle | PlacementGroup) -> str:
    """Say what a reference, an actor or a placement group waits for: which resource, which argument, which process."""
    runtime = get_runtime()
    if isinstance(what, ActorHandle):
        return str(runtime.query("explain_actor", what._actor_id))
    if isinstance(what, PlacementGroup):
        return str(runtime.query("explain_placement_group", what.id))
    return runtime.explain(what)


def set_resource(name: str, capacity: float, node_id: str | None = None) -> None:
    """Create, change or (with 0) delete a custom resource of a node: of `node_id`, or of the one where this runs.

    Raises OptionError for a bad capacity, and for a node that is not there.
    """
    ensure_session().query("set_resource", name, float(capacity), node_id or "")


def drain_node(node_id: str, deadline: float | None = None) -> None:
    """Let a node leave: nothing new starts there, what runs goes on, what lies in its store is copied elsewhere.

    It leaves when nothing runs there any more, in `deadline` seconds at the latest; then what still runs is cut off,
    and run again elsewhere as far as `max_retries` and `max_restarts` allow. Returns at once; `kernel.nodes()` shows
    how far it is (`State`). Raises OptionError for a node that is not there, or that is beside the head.
    """
    get_runtime().query("drain_node", node_id, None if deadline is None else float(deadline))


def set_title(text: str) -> None:
    """Have `ps` show `text` as what this worker does, until it begins to run another function; a class shows it on.

    By itself a worker shows the function that it runs, or its actor's class and name. Nothing happens in a program that
    is no worker.
    """
    worker_title.say(text)


@contextmanager
def profile(name: str, extra_data: Mapping[str, str] | None = None) -> Iterator[None]:
    """Show the block as a span in the timeline, with `extra_data` to look at."""
    begun = time.time()
    try:
        yield
    finally:
        runtime = find_runtime()
        if runtime is not None:
            runtime.trace_span(name, begun, time.time(), dict(extra_data or {}))
