"""Instructions of the state machines. The shell carries each out, and answers by the events that are named."""

from __future__ import annotations

from kernel_serve.settings import DeploymentSettings, GRPCOptions, HTTPOptions
from kernel_serve.values import DeploymentSpec, Standing
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StartReplica:
    """Create the replica and wait until it takes requests: `ready`, or `failed`.

    Until it has a place to run: `waits`. With `resume` it may exist already.
    """

    id: str
    spec: DeploymentSpec
    route_prefix: str | None
    standing: Standing
    resume: bool = False


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Send a running replica its settings and its standing: `reconfigured` or `reconfigure_failed`."""

    id: str
    settings: DeploymentSettings
    standing: Standing


@dataclass(frozen=True, slots=True)
class CheckReplica:
    """Check the health of a replica, for `timeout` seconds at most: `healthy` or `unhealthy`."""

    id: str
    timeout: float


@dataclass(frozen=True, slots=True)
class DrainReplica:
    """Have a replica finish its requests, `timeout` seconds at most, and end it: `gone`.

    The replica looks every `wait` seconds whether they are finished.
    """

    id: str
    wait: float
    timeout: float


@dataclass(frozen=True, slots=True)
class KillReplica:
    """End a replica at once: `gone`."""

    id: str


@dataclass(frozen=True, slots=True)
class PublishTopic:
    """Publish the current value of a topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class StartProxy:
    """Create a proxy and have it listen: `ready` or `failed`. With `resume` it may exist already.

    `shares_grpc`: another proxy of the node has the gRPC port, or is about to. `beside`: addresses of other proxies of
    the node, which this one may hide. `ports_before`: ports of the proxy that this one replaces.
    """

    id: str
    node: str
    index: int
    http: HTTPOptions
    grpc: GRPCOptions
    resume: bool = False
    shares_grpc: bool = False
    beside: tuple[str, ...] = ()
    ports_before: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckProxy:
    """Check the health of a proxy, for `timeout` seconds at most: `healthy` or `failed`."""

    id: str
    timeout: float


@dataclass(frozen=True, slots=True)
class DrainProxy:
    """Have a proxy take no more connections: `aside`.

    End it once its requests are answered, after `timeout` seconds at most: `gone`.

    Clients with idle connections get `patience` seconds, in which an answer may ask them to leave. `moved`: other
    proxies listen at the same port, but at another address.
    """

    id: str
    timeout: float
    patience: float = 0.0
    moved: bool = False


@dataclass(frozen=True, slots=True)
class KillProxy:
    """End a proxy at once: `gone`."""

    id: str


Instruction = (
    StartReplica
    | Reconfigure
    | CheckReplica
    | DrainReplica
    | KillReplica
    | PublishTopic
    | StartProxy
    | CheckProxy
    | DrainProxy
    | KillProxy
)
