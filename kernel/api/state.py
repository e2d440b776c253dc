"""Query and change the state of the session: nodes, actors, resources, timeline, failures, explanations."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from kernel.api.actor import ActorHandle
from kernel.api.placement_groups import PlacementGroup
from kernel.api.session import ensure_session
from kernel.logs import Logger
from kernel.runtime.current import find_runtime, get_runtime
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.process_title import worker_title
from kernel.runtime.timeline_events import events_of
from kernel_spec.providers import NodeProvider


def nodes() -> list[dict[str, Any]]:
    """Return a row per node, living ones and the latest that have left or died, in the order in which they joined.

    Each has `NodeID` (hexadecimal), `Alive`, `State` (ALIVE, DRAINING, DRAINED, DEAD) and, when it is gone, the
    `Cause`; `IsHead`, whether it is beside the head; `NodeManagerAddress`, `NodeManagerPort` and `NodeManagerHostname`;
    `Labels`; `Resources`, the total quantities by name (`CPU`; `memory` and `object_store_memory` in bytes; `GPU` and
    custom ones where it has some), and `Available`, the free ones. A node that is gone has no resources.
    """
    return list(ensure_session().query("nodes"))


def actors(dead: bool = True) -> list[dict[str, Any]]:
    """Return a row per actor of all programs, living ones and, with `dead`, the latest that have died.

    Each has `actor_id`, `class_name`, `name` and `namespace`; `state` (PENDING_CREATION, STARTING, ALIVE, RESTARTING,
    DEAD) and, when it is dead, the `cause`; `pid` and `node_id` of its process; `restarts`, `detached` and `job_id`.
    """
    return list(ensure_session().query("actors", dead))


def cluster_resources() -> dict[str, float]:
    """Return the total quantities of all nodes' resources, by name."""
    return dict(ensure_session().query("cluster_resources"))


def available_resources() -> dict[str, float]:
    """Return the quantities of all nodes' resources that are free at this moment, by name."""
    return dict(ensure_session().query("available_resources"))


def timeline(filename: str | None = None) -> list[dict[str, Any]] | None:
    """Return when each call ran as Chrome trace events, or write them to `filename` for chrome://tracing.

    A warning names each process that did not answer in time, and whose calls are therefore missing. Raises OSError when
    the file can't be written.
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
    """Return a row per failed task or call of this program whose result was not asked for, oldest first.

    Each has `task_id`, `name`, `type` and `message` of the error, `text` (the traceback, where it was shown in full),
    `time` (seconds since the epoch), `pid` and `node_id` of the process that made the call, and `job_id`. A failure is
    listed when no reference to its result is left, or when the result was not asked for within 5 s. With `all_jobs`
    failures of all programs are listed.
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
    """Return a text that says what a reference, an actor or a placement group waits for.

    It names the resource, the argument or the process.
    """
    runtime = get_runtime()
    if isinstance(what, ActorHandle):
        return str(runtime.query("explain_actor", what._actor_id))
    if isinstance(what, PlacementGroup):
        return str(runtime.query("explain_placement_group", what.id))
    return runtime.explain(what)


def set_resource(name: str, capacity: float, node_id: str | None = None) -> None:
    """Create, change or (with 0) delete a custom resource of the node `node_id`, by default of this process's node.

    Raises OptionError for a bad capacity, and for an unknown node.
    """
    ensure_session().query("set_resource", name, float(capacity), node_id or "")


def drain_node(node_id: str, deadline: float | None = None, *, cancel: bool = False) -> None:
    """Let a node leave: it gets no new work, running work goes on, and its objects are copied to other nodes.

    The node leaves when its work has ended, after `deadline` seconds at the latest; work that still runs then is cut
    off, and run again elsewhere as far as `max_retries` and `max_restarts` allow. Returns at once; `kernel.nodes()`
    shows the progress (`State`). With `cancel` a node that has not left yet stays, and gets work again. Raises
    OptionError for an unknown node, for the node beside the head, and where it is too late to cancel.
    """
    said = (
        ("cancel_drain", node_id) if cancel else ("drain_node", node_id, None if deadline is None else float(deadline))
    )
    get_runtime().query(*said)


def demand() -> dict[str, Any]:
    """Return what the session needs and has, as an autoscaler wants to know it.

    `shapes` are the requests that wait outside of placement groups, by what they want (`wanted`, `strategy`): how many
    `requests` there are, and the `backlog` of tasks behind them with the `backlog_seconds` that it is expected to take.
    `groups` are the placement groups that wait, `asked` what `request_resources` has asked for, by `job_id`. `nodes`
    are the living ones with `total` and `available` resources, `provider_id`, `state` and, if idle, `idle_seconds`.
    """
    return dict(ensure_session().query("demand"))


def wait_for_demand(known: int = -1, seconds: float = 30.0) -> int:
    """Return how often something new was needed and not there, once that is another than `known` (an earlier answer).

    After `seconds`, 60 at most, it returns in any case. The count begins with the first call, anew with each head.
    """
    return int(ensure_session().query("wait_for_demand", int(known), float(seconds)))


def request_resources(bundles: Sequence[Mapping[str, float]]) -> None:
    """Have the cluster be large enough for these bundles of resources at once, for as long as this program runs.

    An autoscaler adds machines until they would all fit if nothing ran. Another call takes the place of the one before.
    Raises OptionError for what is no bundle, such as `{"CPU": 4}`.
    """
    ensure_session().query("request_resources", list(bundles))


def make_node_provider(name: str, options: Mapping[str, Any]) -> NodeProvider:
    """Make what makes machines, with its `options`. Raises PluginNotFoundError for a name that no plugin offers."""
    from kernel.plugins import PluginManager  # It looks through all that is installed, which takes a while.

    return cast(NodeProvider, PluginManager.discover({"node_provider": name}).make("node_provider", options))


def set_title(text: str) -> None:
    """Show `text` in `ps` as the title of this worker, until it runs another function; an actor shows it for life.

    By default a worker shows the function that it runs, or its actor's class and name. In a process other than a worker
    this does nothing.
    """
    worker_title.say(text)


@contextmanager
def profile(name: str, extra_data: Mapping[str, str] | None = None) -> Iterator[None]:
    """Record the block as a span called `name` in the timeline, with `extra_data` as its arguments."""
    begun = time.time()
    try:
        yield
    finally:
        runtime = find_runtime()
        if runtime is not None:
            runtime.trace_span(name, begun, time.time(), dict(extra_data or {}))
