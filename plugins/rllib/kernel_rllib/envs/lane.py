"""One environment of a loop: how it is made, reset, made again, and where it is in its episode."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from kernel_rllib.envs import snapshots
from kernel_rllib.envs.lanes import name_of
from kernel_rllib.envs.moves import MOVES
from kernel_rllib.envs.old_gym import Generations, Reset
from kernel_rllib.errors import EnvError

_log = logging.getLogger("kernel.rllib")
NEVER = math.inf
_RESTART_ATTEMPTS = 3
Row = TypeVar("Row")


class Lane:
    """Holds an environment that is made by `make`, as often as it has to be.

    generations: what is known of classes of environments. max_episode_steps: where its episodes are truncated; None:
    where its own time limit says.
    """

    def __init__(self, make: Callable[[], Any], generations: Generations, max_episode_steps: int | None) -> None:
        self._make = make
        self._generations = generations
        self._most = NEVER if max_episode_steps is None else float(max_episode_steps)
        self._time_limit: Any = None
        self._limit = self._most
        self._reset: Reset
        self.env: Any = None
        """The environment as it was made, with its wrappers."""
        self.step: Callable[[Any], Any]
        """Its method, without the layers whose work others do."""
        self.began = 0
        """The step of the vector before the first one of its episode."""
        self.seed: int | None = None
        self.restarts = 0
        self._adopt(make())

    @property
    def deadline(self) -> float:
        """The step of the vector with which its episode is truncated."""
        return self.began + self._limit

    def begin(self, seed: int | None, tick: int) -> tuple[Any, dict[str, Any]]:
        """Begin an episode after this step of the vector; return (observation, info) as the environment does."""
        if seed is not None:
            self.seed, self.restarts = seed, 0
        self._start(tick)
        MOVES.count += 1
        return self._reset(seed)

    def renew(self, tick: int) -> tuple[Any, dict[str, Any]]:
        """Close the environment, make it again, and begin an episode with a seed of its own."""
        self.restarts += 1
        self.close()
        self._adopt(self._make())
        self._start(tick)
        return self._reset(restart_seed(self.seed, self.restarts))

    def fault(self, where: str, method: str, tick: int, error: Exception) -> EnvError:
        """Return the error of a method that raised; `where` is the lane in words."""
        when = f"in step {tick - self.began} of its episode" if method == "step" else "when an episode was to begin"
        fault = EnvError(f"{name_of(self.env)}.{method}() failed in {where}, {when}: {type(error).__name__}: {error}")
        fault.__cause__ = error
        return fault

    def renewed(self, where: str, tick: int, fault: Exception, first: Callable[[Any], Row]) -> Row:
        """Make the environment anew, and return what `first` makes of its first observation.

        Raises EnvError where that fails again and again.
        """
        _log.warning("%s. The environment is made anew", fault)
        last = fault
        for _ in range(_RESTART_ATTEMPTS):
            try:
                return first(self.renew(tick)[0])
            except Exception as error:
                last = error
        raise EnvError(
            f"{name_of(self.env)} in {where} could not be made anew in {_RESTART_ATTEMPTS} attempts: "
            f"{type(last).__name__}: {last} (it had failed before: {fault})"
        ) from last

    def snapshot(self, tick: int, value: Any) -> bytes:
        """Return its state, with the last observation. Raises EnvError where the environment can't be copied."""
        position = (tick - self.began, self._limit, self.seed, self.restarts, value)
        return snapshots.take(self.env, position)

    def restore(self, snapshot: bytes, tick: int) -> Any:
        """Go back to where it was when the snapshot was taken; return the last observation."""
        env, position = snapshots.restored(snapshot, self._make)
        self.close()
        self._adopt(env)
        steps, self._limit, self.seed, self.restarts, value = position
        self.began = tick - steps
        return value

    def render(self) -> Any:
        """Return what the environment draws. Layers that have not heard of its steps are not asked."""
        return without_layers(self.env)[0].render()

    def close(self) -> None:
        """Close the environment; what that raises is logged."""
        try:
            if hasattr(self.env, "close"):
                self.env.close()
        except Exception as error:
            _log.warning("%r could not be closed: %s: %s", self.env, type(error).__name__, error)

    def _start(self, tick: int) -> None:
        self.began = tick
        if self._time_limit is not None:  # A user may have changed its limit, or may read its steps.
            self._time_limit._elapsed_steps = 0
            self._limit = min(self._most, self._time_limit._max_episode_steps)

    def _adopt(self, env: Any) -> None:
        inner, self._time_limit = without_layers(env)
        self.env = env
        self.step = inner.step
        self._reset = self._generations.reset_of(inner)
        spec_limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
        self._limit = min(self._most, NEVER if spec_limit is None else spec_limit)


def without_layers(env: Any) -> tuple[Any, Any]:
    """Return an environment without the layers that `gymnasium.make` adds, and the time limit among them.

    Only those that are outermost, and nothing that is derived from them, which may do more.
    """
    limit = None
    while type(env) in (TimeLimit, OrderEnforcing, PassiveEnvChecker):
        if type(env) is TimeLimit and (limit is None or env._max_episode_steps < limit._max_episode_steps):
            limit = env
        env = env.env
    return env, limit


def restart_seed(seed: int | None, restarts: int) -> int | None:
    """Return the seed of an environment that was made anew for the n-th time in a lane with a seed."""
    if seed is None:
        return None
    return int(np.random.SeedSequence([seed, restarts]).generate_state(1)[0])
