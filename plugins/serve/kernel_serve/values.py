"""The values that the parts exchange: what should run, what runs where, and where requests go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, NamedTuple

from kernel_serve.settings import DeploymentSettings
from kernel_spec.dataclass import dataclass

NAMESPACE = "kernel_serve"
"""The namespace of all actors of Serve."""

CONTROLLER_NAME = "serve controller"

ENDPOINTS = "endpoints"
"""The topic of the endpoints, by which proxies know where requests from outside go. A deployment's topic is its key."""


def key_of(application: str, deployment: str) -> str:
    """Return the key of a deployment, by which all parts know it."""
    return f"{application}#{deployment}"


def ends_of_key(key: str) -> tuple[str, str]:
    """Return the application and the deployment of a key."""
    application, _, deployment = key.rpartition("#")
    return application, deployment


@dataclass(frozen=True, slots=True)
class DeploymentSpec:
    """A deployment as it should run. `code` is a cloudpickle of (callable, positional arguments, keyword arguments).

    Replicas of two specs are alike if `version` is equal. It stays the same when only settings change that running
    replicas can take over (numbers, `user_config`).
    """

    application: str
    name: str
    code: bytes
    settings: DeploymentSettings
    version: str
    path: tuple[str, ...] = ()
    """Directories in which the program that deployed it finds modules; replicas look there, too."""

    @property
    def key(self) -> str:
        """Its key, by which all parts know it."""
        return key_of(self.application, self.name)


@dataclass(frozen=True, slots=True)
class ApplicationSpec:
    """Deployments that are deployed together, one of which (`ingress`) takes the requests from outside.

    `route_prefix` is None for an application without HTTP. A backend is an application without a route, with one
    deployment of the same name; it can't be deleted while an endpoint sends requests to it.
    """

    name: str
    ingress: str
    deployments: tuple[DeploymentSpec, ...]
    route_prefix: str | None = "/"
    is_backend: bool = False


class Standing(NamedTuple):
    """Holds the rank of a replica, and the number of replicas that the deployment should have."""

    rank: int
    world_size: int


@dataclass(frozen=True, slots=True)
class Replica:
    """Locates a replica that takes requests: `socket` on node `node` (hexadecimal), `actor` from other nodes."""

    id: str
    node: str
    socket: str
    actor: Any
    version: str
    max_ongoing_requests: int
    models: tuple[str, ...] = ()
    """The multiplexed models that it is known to have loaded."""


@dataclass(frozen=True, slots=True)
class ReplicaSet:
    """Holds the replicas of a deployment that take requests, and its limits: what routers know of it."""

    key: str
    replicas: tuple[Replica, ...]
    max_queued_requests: int
    request_timeout_s: float | None
    exists: bool = True
    message: str = ""
    """Why it has no replica; "" if it has one, or if autoscaling needs none."""
    paused: bool = False
    """Whether it has no replica because a user set 0, so that waiting requests would wait for ever."""


@dataclass(frozen=True, slots=True)
class Target:
    """Describes one of the deployments among which an endpoint's requests are split."""

    deployment: str
    """The key of the deployment."""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Describes an endpoint: requests whose path begins with `prefix` go to one of `targets`, by weight.

    `shadows` get copies of a share of the requests, and their answers are discarded. Requests with the same value of
    `sticky` (`header:NAME`, `cookie:NAME`, `query:NAME` or `client`) go to the same target. An endpoint that stands
    alone does not end with an application: it may be without targets (503). One without a prefix has no HTTP: gRPC
    finds it by its name, and so do handles.
    """

    name: str
    prefix: str
    targets: tuple[Target, ...]
    methods: frozenset[str] = frozenset()
    """The methods that it takes; empty for all."""
    shadows: tuple[Target, ...] = ()
    sticky: str = ""
    stands_alone: bool = False


class Listening(NamedTuple):
    """Holds the addresses of a proxy, such as "127.0.0.1:8000"; "" for a protocol that it does not take."""

    http: str
    grpc: str = ""


@dataclass(frozen=True, slots=True)
class RouterReport:
    """The report of a router to the controller: its waiting requests, and those it has sent to replicas."""

    router: str
    node: str
    queued: Mapping[str, int] = field(default_factory=dict)
    """The number of waiting requests by key of a deployment."""
    ongoing: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The number of sent requests by key of a deployment, and by id of a replica."""
    snapshot: Any = None
    """The metrics of the router, if Serve does not ask its process for them; see `metrics/callers.py`."""
