"""What the state machines want done. The shell carries it out, and tells them by the event that is named."""

from __future__ import annotations

from kernel_serve.settings import DeploymentSettings, GRPCOptions, HTTPOptions
from kernel_serve.values import DeploymentSpec, Standing
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StartReplica:
    """Make the replica and wait until it takes requests: `ready`, or `failed`.

    While it has no place yet: `waits`. With `resume` it is there already, unless it never came to be.
    """

    id: str
    spec: DeploymentSpec
    route_prefix: str | None
    standing: Standing
    resume: bool = False


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Tell a running replica its settings and its standing: `reconfigured` or `reconfigure_failed`."""

    id: str
    settings: DeploymentSettings
    standing: Standing


@dataclass(frozen=True, slots=True)
class CheckReplica:
    """Ask a replica how it is, for `timeout` seconds: `healthy` or `unhealthy`."""

    id: str
    timeout: float


@dataclass(frozen=True, slots=True)
class DrainReplica:
    """Have a replica finish its requests (`timeout` seconds at most), end it, and say `gone`.

    It looks every `wait` seconds whether they are finished.
    """

    id: str
    wait: float
    timeout: float


@dataclass(frozen=True, slots=True)
class KillReplica:
    """End a replica at once, and say `gone`."""

    id: str


@dataclass(frozen=True, slots=True)
class PublishTopic:
    """Tell who listens what is now true of a topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class StartProxy:
    """Make a proxy and have it listen: `ready` or `failed`. With `resume` it is there already.

    `shares_grpc`: another one of the node has the port for gRPC, or may be just taking it. `beside`: where others of
    the node listen, which may be hidden by where this one is to. `ports_before`: those of the one whose place it takes.
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
    """Ask a proxy how it is, for `timeout` seconds: `healthy` or `failed`."""

    id: str
    timeout: float


@dataclass(frozen=True, slots=True)
class DrainProxy:
    """Have a proxy take no more connections: `aside`. When its requests are answered, in `timeout` seconds at most, end
    it, and say `gone`.

    Clients that keep idle connections have `patience` seconds to be told, with an answer, to leave. `moved`: others
    listen at the same port, but at another address.
    """

    id: str
    timeout: float
    patience: float = 0.0
    moved: bool = False


@dataclass(frozen=True, slots=True)
class KillProxy:
    """End a proxy at once, and say `gone`."""

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
