"""The values that the parts tell each other: what is to run, what runs where, and which way requests go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, NamedTuple

from kernel_serve.settings import DeploymentSettings
from kernel_spec.dataclass import dataclass

NAMESPACE = "kernel_serve"
"""Of all actors here."""

CONTROLLER_NAME = "serve controller"

ENDPOINTS = "endpoints"
"""The topic under which the controller tells which way requests from outside go; that of a deployment is its key."""


def key_of(application: str, deployment: str) -> str:
    """Return the key under which a deployment is known everywhere."""
    return f"{application}#{deployment}"


def ends_of_key(key: str) -> tuple[str, str]:
    """Return the application and the deployment of a key."""
    application, _, deployment = key.rpartition("#")
    return application, deployment


@dataclass(frozen=True, slots=True)
class DeploymentSpec:
    """A deployment as it is to be. `code` is a cloudpickle of (callable, positional arguments, keyword arguments).

    Replicas of two specs are alike if `version` is equal: a change of the settings alone that running replicas can
    take over (numbers, `user_config`) leaves it as it is.
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
        """Its name everywhere."""
        return key_of(self.application, self.name)


@dataclass(frozen=True, slots=True)
class ApplicationSpec:
    """Deployments that are deployed together, one of which (`ingress`) takes the requests from outside.

    `route_prefix` is None for an application that HTTP does not reach. A backend is an application without a
    route, with one deployment of the same name, which can't be deleted while an endpoint sends requests to it.
    """

    name: str
    ingress: str
    deployments: tuple[DeploymentSpec, ...]
    route_prefix: str | None = "/"
    is_backend: bool = False


class Standing(NamedTuple):
    """Which of its deployment's replicas one is, and among how many that are wanted."""

    rank: int
    world_size: int


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica that takes requests: at `socket` on node `node` (hexadecimal), and through `actor` from elsewhere."""

    id: str
    node: str
    socket: str
    actor: Any
    version: str
    max_ongoing_requests: int
    models: tuple[str, ...] = ()
    """The multiplexed models that it has loaded, as far as is known."""


@dataclass(frozen=True, slots=True)
class ReplicaSet:
    """What a router knows of a deployment. Replicas that end, or are not ready, are not among them."""

    key: str
    replicas: tuple[Replica, ...]
    max_queued_requests: int
    request_timeout_s: float | None
    exists: bool = True
    message: str = ""
    """Why there is no replica, if that is not because autoscaling needs none."""
    paused: bool = False
    """Whether there is none because a user wants none: to wait for one would be in vain."""


@dataclass(frozen=True, slots=True)
class Target:
    """One of the deployments among which an endpoint's requests are split."""

    deployment: str
    """Its key."""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A way in: requests whose path begins with `prefix` go to one of `targets`, by weight.

    `shadows` get copies of a share of the requests, and their answers are thrown away. Requests with the same value of
    `sticky` (`header:NAME`, `cookie:NAME`, `query:NAME` or `client`) go to the same target. One that stands alone has
    a life of its own: it may be without targets (503). One without a prefix has no HTTP: gRPC finds it by its name,
    and so do handles.
    """

    name: str
    prefix: str
    targets: tuple[Target, ...]
    methods: frozenset[str] = frozenset()
    """Those that are taken; none named: all."""
    shadows: tuple[Target, ...] = ()
    sticky: str = ""
    stands_alone: bool = False


class Listening(NamedTuple):
    """Where a proxy listens: addresses such as "127.0.0.1:8000"; "" where it does not."""

    http: str
    grpc: str = ""


@dataclass(frozen=True, slots=True)
class RouterReport:
    """What a router tells the controller now and then: requests that wait there, and those it has sent, by replica."""

    router: str
    node: str
    queued: Mapping[str, int] = field(default_factory=dict)
    """Key of a deployment to number."""
    ongoing: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Key of a deployment to id of a replica to number."""
    snapshot: Any = None
    """What the router has counted, where nobody asks its process for that; see `metrics/callers.py`."""
