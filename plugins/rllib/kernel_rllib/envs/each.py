"""Calling a function for each environment of a runner, wherever these are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel_rllib.envs.context import EnvContext


class WithContext:
    """Calls a function of an environment and its context for environments one after another."""

    def __init__(self, function: Callable[[Any, EnvContext], Any], context: EnvContext, first: int = 0) -> None:
        """Begin.

        Args:
            function: The function, of an environment and its context.
            context: The context of the runner; each environment has a copy with its `vector_index`.
            first: The `vector_index` of the first one.
        """
        self._function, self._context, self._next = function, context, first

    def __call__(self, env: Any) -> Any:
        """Return what the function returns for the next environment."""
        context = self._context.copy_with_overrides(vector_index=self._next)
        self._next += 1
        return self._function(env, context)

    def beginning_at(self, lane: int) -> WithContext:
        """Return one that begins at a lane; see `for_lanes_from`."""
        return WithContext(self._function, self._context, lane)


def for_lanes_from(lane: int, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what another process is to call for its environments, the first of which is this lane."""
    return function.beginning_at(lane) if isinstance(function, WithContext) else function
