"""The node provider in its simplest correct form: a list of nodes in memory, changed by hand."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import INVALID, ProvidedNode


class ManualNodeProvider:
    """Keeps a list of the nodes that were asked for; another program has to start and end them.

    `configuration` is the provider's section of the configuration: `{"kinds": {"small": {"CPU": 2}}}`. Without kinds
    no node can be asked for, and the cluster has the nodes that were started by hand. The list ends with this
    process: a provider of real machines must ask its cloud instead.
    """

    name = "manual"

    def __init__(self, configuration: Mapping[str, Any] | None = None) -> None:
        self._kinds = {kind: dict(resources) for kind, resources in (configuration or {}).get("kinds", {}).items()}
        self._nodes: dict[str, ProvidedNode] = {}
        self._made = 0
        self._lock = threading.Lock()
        self.joins: dict[str, Mapping[str, Any]] = {}
        """The `join` argument of each node, by its id."""

    def kinds(self) -> Mapping[str, Mapping[str, float]]:
        """Return the configured kinds and their resources."""
        return {kind: dict(resources) for kind, resources in self._kinds.items()}

    def list(self) -> Sequence[ProvidedNode]:
        """Return the nodes that were created and not terminated."""
        with self._lock:
            return [*self._nodes.values()]

    def create(self, kind: str, count: int, join: Mapping[str, Any]) -> Sequence[str]:
        """Add `count` nodes to the list as starting, and return their ids.

        Raises NodeProviderError for an unknown kind or a count below one.
        """
        if kind not in self._kinds:
            known = ", ".join(sorted(self._kinds)) or "none"
            raise NodeProviderError(
                f"the node provider 'manual' can't make a node of kind {kind!r}; kinds it knows: {known}. "
                "Name one in its configuration, or start the node yourself with `kernel start --address`",
                code=INVALID,
            )
        if count < 1:
            raise NodeProviderError(
                f"the node provider 'manual' was asked for {count} nodes of kind {kind!r}, not 1 up", code=INVALID
            )
        with self._lock:
            ids = [f"manual-{self._made + number}" for number in range(1, count + 1)]
            self._made += count
            for id in ids:
                self._nodes[id] = ProvidedNode(id, kind, "starting")
                self.joins[id] = dict(join)
        return ids

    def terminate(self, ids: Sequence[str]) -> None:
        """Forget nodes. Unknown ids are ignored."""
        with self._lock:
            for id in ids:
                self._nodes.pop(id, None)
                self.joins.pop(id, None)

    def mark(self, id: str, state: str, address: str = "", problem: str = "") -> None:
        """Set the state of a node: `running` at `address`, or `failed` because of `problem`.

        Raises NodeProviderError for a node that is not on the list.
        """
        with self._lock:
            if id not in self._nodes:
                raise NodeProviderError(f"the node provider 'manual' has no node {id!r}; it was never made, or ended")
            self._nodes[id] = replace(self._nodes[id], state=state, address=address, problem=problem)
