"""The node provider contract: create and remove machines for a cluster.

Called from one thread, never from a hot path; each call may take seconds and may raise `NodeProviderError`, whose
`code` (`ERROR_CODES`) says what helps. After an error the caller asks `list` again. Nothing may be remembered only in
memory: after a restart `list` must find every node this cluster created. A machine tells its id when it joins
(`kernel start --provider-id`, or `KERNEL_PROVIDER_ID`), as the label `kernel_spec.labels.PROVIDER_ID_LABEL`: so an id
is a value of a label.

A provider is made with its section of the configuration, to which `session` is added: the head's session directory,
where it may keep files.

What a provider may have besides, each found by itself: `describe` (`DescribesKinds`), `events` (`TellsInterruptions`),
and a parameter `token` of `create` (`takes_token`).

On conflict: a driver (one chosen by name). On absence the cluster has the nodes that were started by hand.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, runtime_checkable

from kernel_spec.dataclass import dataclass

CAPACITY, QUOTA, CREDENTIALS = "capacity", "quota", "credentials"
THROTTLED, INVALID, UNKNOWN = "throttled", "invalid", "unknown"
ERROR_CODES = (CAPACITY, QUOTA, CREDENTIALS, THROTTLED, INVALID, UNKNOWN)
"""Why a call failed: no machine of the kind is to be had now (another kind or zone may help), the account may have no
more, its credentials are refused, calls came too fast (`retry_after`), the call itself is wrong (the kind, the image),
or something else, after which the call may or may not have had its effect."""


@dataclass(frozen=True, slots=True)
class ProvidedNode:
    """One machine. `state` is starting, running, stopping or failed."""

    id: str
    kind: str
    state: str
    address: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


@runtime_checkable
class NodeProvider(Protocol):
    """Makes and removes machines. See the module's text."""

    name: str

    def kinds(self) -> Mapping[str, Mapping[str, float]]:
        """Return the kinds of nodes that can be created, each with its resources."""
        ...

    def list(self) -> Sequence[ProvidedNode]:
        """Return every node of this cluster that exists or is being created."""
        ...

    def create(self, kind: str, count: int, join: Mapping[str, Any]) -> Sequence[str]:
        """Start making `count` nodes that join with `join` (address, token); return their ids without waiting."""
        ...

    def terminate(self, ids: Sequence[str]) -> None:
        """Start removing nodes. Unknown ids are ignored: their nodes are removed already."""
        ...


@dataclass(frozen=True, slots=True)
class KindDetails:
    """What a kind of node costs, and how its nodes come and go.

    `price` is per hour, in one currency for all kinds of a provider; None if it is not known. A `spot` node may be
    taken away. `labels` are those that its nodes join with, `boot_seconds` is how long one usually takes to join.
    """

    price: float | None = None
    spot: bool = False
    zone: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    boot_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Interruption:
    """The provider is about to take a node away: in `seconds`, for `reason`, which is shown to people."""

    id: str
    seconds: float
    reason: str


@runtime_checkable
class DescribesKinds(Protocol):
    """A provider that knows what its kinds cost."""

    def describe(self, kind: str) -> KindDetails:
        """Return what a kind costs, and where its nodes are. Raises NodeProviderError for an unknown kind."""
        ...


@runtime_checkable
class TellsInterruptions(Protocol):
    """A provider that hears when its nodes will be taken away."""

    def events(self) -> Sequence[Interruption]:
        """Return the interruptions that were announced since the last call, without waiting for any."""
        ...


def takes_token(provider: NodeProvider) -> bool:
    """Return whether `create` takes a `token`: a call with the token of an earlier one makes no node.

    It returns the ids of that call instead. So a caller that does not know whether a call had its effect may repeat it.
    """
    return "token" in inspect.signature(provider.create).parameters
