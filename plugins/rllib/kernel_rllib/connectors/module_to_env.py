"""From what explorations choose to what environments are told: unsquashed, clipped, in the shape of the space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from kernel_rllib.arrays import Array

ActionConnector: TypeAlias = Callable[[Any], Any]
"""Returns actions [L, ...] for actions [L, ...] of all lanes."""


class ModuleToEnv:
    """The choices of all lanes through connectors in order."""

    def __init__(self, connectors: Sequence[ActionConnector] = ()) -> None:
        """Pass actions through these, the first one first."""
        self.connectors = list(connectors)

    def __call__(self, actions: Array) -> Any:
        """Return what the environments take for what was chosen [L, ...]."""
        for connector in self.connectors:
            actions = connector(actions)
        return actions
