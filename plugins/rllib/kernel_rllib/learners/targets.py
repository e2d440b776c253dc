"""A slower copy of a module's parameters, from which targets are made (Mnih et al., 2015; Lillicrap et al., 2015)."""

from __future__ import annotations

from typing import Any

from kernel_rllib.nn.backend import Backend


class TargetParameters:
    """Parameters that follow others: at a stroke, or a little with every update."""

    def __init__(self, vector: Any, backend: Backend, place: slice = slice(None)) -> None:
        """Begin as a copy of a vector.

        Args:
            vector: The parameters to follow [size].
            backend: The backend that `vector` is an array of.
            place: The positions of those that are followed; the others stay as they are.
        """
        self.vector = backend.vector(vector)
        self._place = place
        self._scratch = backend.vector(vector[place])

    def follow(self, vector: Any, rate: float = 1.0) -> None:
        """Move towards `vector` by this part of the way: t <- (1 - rate) t + rate v."""
        own, other = self.vector[self._place], vector[self._place]
        if rate == 1.0:
            own[...] = other
            return
        self._scratch[...] = other
        self._scratch -= own
        self._scratch *= rate
        own += self._scratch
