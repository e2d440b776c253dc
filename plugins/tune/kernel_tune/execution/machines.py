"""The machines of the session: what they have, and how they find out that they share the experiment's files."""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping

import kernel
from kernel_runs.resources import Demand
from kernel_tune.trainable.trial_directory import MARKER_FILE

_log = logging.getLogger("kernel.tune")
_FRESH_SECONDS = 1.0


def what_there_is() -> tuple[Demand, list[Demand]]:
    """Return the resources of all nodes together, and those of each node."""
    nodes = [_amounts(row["Resources"]) for row in kernel.nodes() if row["Alive"]]
    return _amounts(kernel.cluster_resources()), nodes


def _amounts(resources: Mapping[str, float]) -> Demand:
    return {name: float(amount) for name, amount in resources.items() if not name.startswith("node:")}


class Machines:
    """Holds the nodes of the session. `node` is the id of the driver's own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.node: str = kernel.get_runtime_context().get_node_id()
        self._clock = clock
        self._looked_at = float("-inf")
        self._are_many = False
        self._marker = secrets.token_hex(16)
        self._marked: set[str] = set()

    @property
    def are_many(self) -> bool:
        """Whether trials may run on other nodes than the driver's. The answer may be a second old."""
        now = self._clock()
        if now - self._looked_at > _FRESH_SECONDS:
            self._are_many = any(row["Alive"] and row["NodeID"] != self.node for row in kernel.nodes())
            self._looked_at = now
        return self._are_many

    def marker_in(self, directory: str) -> str:
        """Return the content of the marker file in an experiment's directory, which is written at the first call.

        It is "" with a single node. If the file can't be written, other machines treat the directory as not shared.
        """
        if not self.are_many:
            return ""
        if directory not in self._marked:
            self._marked.add(directory)
            try:
                os.makedirs(directory, exist_ok=True)
                with open(os.path.join(directory, MARKER_FILE), "w", encoding="utf-8") as file:
                    file.write(self._marker)
            except OSError as error:
                _log.debug("no marker in %s: %s", directory, error)
        return self._marker
