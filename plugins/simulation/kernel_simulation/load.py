"""The nodes and the work of a simulated cluster. `load_file` reads and writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from kernel_simulation.distributions import Distribution
from kernel_spec.dataclass import dataclass

TASKS, ACTORS, GANGS = "tasks", "actors", "gangs"
FORMS = (TASKS, ACTORS, GANGS)
"""What work may be: tasks on leases that are used again, actors with a lease each, gangs in a placement group each."""

FAIL, DRAIN, JOIN, SET_RESOURCE, RESTART_HEAD = "fail", "drain", "join", "set_resource", "restart_head"
ACTIONS = (FAIL, DRAIN, JOIN, SET_RESOURCE, RESTART_HEAD)
"""The kinds of events of the cluster."""


@dataclass(frozen=True, slots=True)
class NodeKind:
    """`count` nodes alike, with `resources` in plain quantities.

    Each fails once in `fails_every` seconds on average (0: never), and another takes its place `back_after` seconds
    later (0: none does).
    """

    kind: str
    count: int
    resources: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)
    fails_every: float = 0.0
    back_after: float = 0.0


@dataclass(frozen=True, slots=True)
class Work:
    """`count` pieces of work alike, of one of FORMS, submitted by `processes` processes in turn.

    `resources` (plain quantities) are for one task or actor; a gang has `bundles` of them instead, each with one task
    of the gang. For the share `blocked` of its time, at its end, a task waits inside `get`. A piece that dies with its
    node is run again up to `retries` times; one that is preempted always is. For each lease `input_bytes` of arguments
    lie on a random node.
    """

    name: str
    form: str
    count: int
    duration: Distribution
    arrival: Distribution = field(default_factory=lambda: Distribution("at_once", {}))
    resources: Mapping[str, float] = field(default_factory=lambda: {"CPU": 1.0})
    bundles: tuple[Mapping[str, float], ...] = ()
    strategy: str | Mapping[str, Any] = "DEFAULT"
    hints: Mapping[str, Any] = field(default_factory=dict)
    job: str = "job"
    processes: int = 1
    preemptible: bool = False
    retries: int = 3
    blocked: float = 0.0
    input_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happens at `at` seconds to `count` nodes of `kind` (any when empty), or to the head.

    A drained node leaves when nothing runs on it any more, `seconds` later at the latest. `set_resource` gives a node
    `quantity` of `resource`.
    """

    at: float
    action: str
    kind: str = ""
    count: int = 1
    seconds: float = 60.0
    resource: str = ""
    quantity: float = 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """All of it. `tick_seconds` pass between ticks, `grant_seconds` between a grant and the worker's first task."""

    name: str
    nodes: tuple[NodeKind, ...]
    work: tuple[Work, ...]
    changes: tuple[Change, ...] = ()
    tick_seconds: float = 0.1
    grant_seconds: float = 0.001
