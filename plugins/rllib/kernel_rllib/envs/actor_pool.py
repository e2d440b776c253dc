"""The actors of all lanes, and what takes the place of one that died."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import kernel
from kernel.exceptions import ActorError
from kernel_rllib.envs.lane import restart_seed
from kernel_rllib.envs.loop import LoopEnv
from kernel_rllib.envs.moves import MOVES
from kernel_rllib.envs.whereabouts import Whereabouts, whereabouts_of
from kernel_rllib.errors import EnvError

_log = logging.getLogger("kernel.rllib")
_RESTART_ATTEMPTS = 3
_WATCH = "watch"
"""The calls that are answered while an environment is stepped."""
_ANSWER_SECONDS = 0.5


class EnvActor:
    """One lane in a process of its own: a loop of one environment."""

    def __init__(self, loop: type, maker: Callable[[], Any], lane: int, settings: Mapping[str, Any]) -> None:
        number = "first_lane" if loop is LoopEnv else "first_env"
        self._loop = loop([maker], **{number: lane}, **settings)

    def call(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the loop returns."""
        MOVES.count += 1  # to have taken the call is a sign of life: the time that a step takes begins here
        return getattr(self._loop, method)(*arguments)

    def attribute(self, *names: str) -> list[Any]:
        """Return attributes of the loop."""
        return [getattr(self._loop, name) for name in names]

    @kernel.method(concurrency_group=_WATCH)
    def whereabouts(self) -> Whereabouts:
        """Return where this process is, while it does something else."""
        main = threading.main_thread().ident
        assert main is not None
        return whereabouts_of(main)

    def begin(self, method: str, *arguments: Any) -> tuple[Any, Any]:
        """Return what a method that begins an episode returns, and what was told."""
        return self.call(method, *arguments), self._loop.reset_infos


class ActorPool:
    """The actors of all lanes, and new ones in the place of those that died."""

    def __init__(
        self,
        loop: type,
        makers: Sequence[Callable[[], Any]],
        restart_failed: bool,
        options: Mapping[str, Any],
        settings: Mapping[str, Any],
    ) -> None:
        if not makers:
            raise EnvError("a vector of environments needs one lane at least")
        self.seeds: list[int | None] = [None] * len(makers)
        self._restarts = [0] * len(makers)
        self._restart_failed = restart_failed
        self._loop = loop
        self._makers = makers
        self._settings = {**settings, "restart_failed": restart_failed}
        self._remote = kernel.remote(**{"num_cpus": 0, **options, "concurrency_groups": {_WATCH: 1}})(EnvActor)
        self._actors = [self._start(lane) for lane in range(len(makers))]

    def submit(self, lane: int, method: str, *arguments: Any) -> Any:
        """Have a lane do something, and return the reference of what it will return."""
        return self._actors[lane].call.remote(method, *arguments)

    def call(self, lane: int, method: str, *arguments: Any) -> Any:
        """Return what a method of a lane returns. Raises EnvError where its actor died."""
        try:
            return kernel.get(self.submit(lane, method, *arguments))
        except ActorError as error:
            raise self._died(lane, error) from None

    def attributes(self, lane: int, *names: str) -> list[Any]:
        """Return attributes of a lane's loop."""
        found: list[Any] = kernel.get(self._actors[lane].attribute.remote(*names))
        return found

    def begin_all(self, seeds: Sequence[int | None]) -> list[tuple[Any, Any]]:
        """Begin an episode in each lane; return the first observations and what was told."""
        for lane, seed in enumerate(seeds):
            self.seeded(lane, seed)
        return kernel.get([  # type: ignore[no-any-return]
            actor.begin.remote("reset", [seed]) for actor, seed in zip(self._actors, seeds, strict=True)
        ])  # fmt: skip

    def begin(self, lane: int, method: str, seed: int | None) -> tuple[Any, Any]:
        """Begin the next episode of one lane; return the first observation and what was told."""
        self.seeded(lane, seed)
        found: tuple[Any, Any] = kernel.get(self._actors[lane].begin.remote(method, 0, seed))
        return found

    def seeded(self, lane: int, seed: int | None) -> None:
        """Remember the seed of a lane."""
        if seed is not None:
            self.seeds[lane], self._restarts[lane] = seed, 0

    def renewed(self, lane: int, error: ActorError) -> tuple[EnvError, Any, Any]:
        """Start an actor in the place of one that died; return the fault, the first observations and what was told.

        Raises EnvError where lanes are not to be restarted.
        """
        fault = self._died(lane, error)
        if not self._restart_failed:
            raise fault
        _log.warning("%s. It is made anew", fault)
        for _ in range(_RESTART_ATTEMPTS):
            self._restarts[lane] += 1
            self._actors[lane] = self._start(lane)
            seed = restart_seed(self.seeds[lane], self._restarts[lane])
            try:
                return fault, *kernel.get(self._actors[lane].begin.remote("reset", [seed]))
            except ActorError as again:
                error = again
        raise self._died(lane, error)

    def inside(self) -> Whereabouts:
        """Return where the first lane is that does something, as far as lanes say so soon.

        An actor that does not answer soon counts as in its environment, one that waits for a call does not.
        """
        asked = {actor.whereabouts.remote(): lane for lane, actor in enumerate(self._actors)}
        ready, _ = kernel.wait([*asked], num_returns=len(asked), timeout=_ANSWER_SECONDS)
        found: list[tuple[int, Whereabouts]] = []
        for ref in ready:
            with suppress(ActorError):  # Raised again by the call that waits for its step.
                found.append((asked[ref], kernel.get(ref)))
        moves = sum(each.moves for _, each in found)
        busy = next(((lane, each.place) for lane, each in sorted(found) if each.is_in_environments), None)
        if busy is None and len(found) == len(asked):
            return Whereabouts(moves, "an actor of an environment, and all of them wait for a call")
        if busy is None:
            silent = "an actor of an environment, and none of them says where it is"
            return Whereabouts(moves, silent, is_in_environments=True)
        return Whereabouts(moves, f"{busy[1]}, in the actor of lane {busy[0]}", is_in_environments=True)

    def close(self) -> None:
        """Close the environments, and end the actors."""
        for lane, actor in enumerate(self._actors):
            try:
                kernel.get(actor.call.remote("close"), timeout=5)
            except Exception as error:
                _log.debug("lane %d could not be closed: %s", lane, error)
            kernel.kill(actor)
        self._actors = []

    def _start(self, lane: int) -> Any:
        return self._remote.remote(self._loop, self._makers[lane], lane, self._settings)

    def _died(self, lane: int, error: ActorError) -> EnvError:
        return EnvError(
            f"the environment of lane {lane} is gone with its actor: {error}. With "
            "restart_failed_sub_environments=True its lane begins anew"
        )
