"""The node provider contract: create and remove machines for a cluster.

Called from one thread of the head, never from a hot path; each call may take seconds and may raise
`NodeProviderError`, after which the caller asks `list` again. Nothing may be remembered only in memory: after a
restart `list` must find every node this cluster created.

On conflict: a driver (one chosen by name). On absence the cluster has the nodes that were started by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, runtime_checkable

from kernel_spec.dataclass import dataclass


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
