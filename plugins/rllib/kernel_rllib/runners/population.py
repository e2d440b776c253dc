"""The processes that play trials: trials are dealt out, and those of a process that dies are played again elsewhere.

A trial brings the same wherever it is played (see `runners.trials`), so neither the number of processes nor the death
of one changes a bit of what is returned.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import kernel
from kernel_rllib.arrays import Array
from kernel_rllib.connectors.moments import Statistics
from kernel_rllib.errors import RunnersLostError
from kernel_rllib.nn.blas import set_blas_threads
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.remote_runner import take_as_heard
from kernel_rllib.runners.trials import Outcomes, Trial, TrialPlayer, TrialSettings
from kernel_spec.errors import FaultError

_log = logging.getLogger("kernel.rllib")


class PlayerActor:
    """A `TrialPlayer` that is called from elsewhere."""

    def __init__(self, settings: TrialSettings, place: RunnerPlace) -> None:
        """Make the player."""
        set_blas_threads(1)
        self._player = TrialPlayer(settings, place)

    def process(self) -> int:
        """Return the number of its process."""
        return os.getpid()

    def play(self, trials: Sequence[Trial], vector: Array, generation: int, statistics: Statistics) -> Outcomes:
        """Play trials, and return what they brought."""
        return self._player.play(trials, vector, generation, statistics)


@dataclass
class _Player:
    place: RunnerPlace
    handle: kernel.ActorHandle


@dataclass
class _PlayRequest:
    index: int
    trials: Sequence[Trial]
    outcomes: kernel.ObjectRef


@dataclass(frozen=True)
class _Generation:
    """Holds the common data of a generation's trials: the parameters by the store, its number, the statistics."""

    vector: kernel.ObjectRef
    number: int
    statistics: Statistics


class Population:
    """Plays trials, here or in actors."""

    def __init__(self, trials: TrialSettings, group: GroupSettings) -> None:
        """Make the players.

        Args:
            trials: The settings by which trials are played.
            group: The numbers of players and of their lanes, and what happens when a player dies.
        """
        self._trials, self._group = trials, group
        self._failures = 0
        self._local: TrialPlayer | None = None
        self._players: dict[int, _Player] = {}
        if not group.remote:
            self._local = TrialPlayer(trials, RunnerPlace(0, tuple(group.lanes[0]), 0, len(group.lanes[0])))
            return
        all_lanes = sum(map(len, group.lanes))
        for index, lanes in enumerate(group.lanes, start=1):
            if lanes:
                self._start(RunnerPlace(index, tuple(lanes), len(group.lanes), all_lanes))

    @property
    def num_healthy_players(self) -> int:
        """Return how many actors play now."""
        return len(self._players)

    def play(self, trials: Sequence[Trial], vector: Array, generation: int, statistics: Statistics) -> Outcomes:
        """Play trials, and return what they brought, in the order of directions and sides.

        Args:
            trials: The trials to play.
            vector: The parameters that directions start from [size].
            generation: The number of the generation.
            statistics: The statistics of the observation filter.

        Raises:
            RunnersLostError: If no player is left, or too many died in a row, or one did and is not to be replaced.
        """
        if self._local is not None:
            return Outcomes.joined([self._local.play(trials, vector, generation, statistics)])
        common = _Generation(kernel.put(vector), generation, statistics)
        requests, found = self._dealt(trials, common), []
        try:
            while requests:
                request = requests[0]
                try:
                    found.append(kernel.get(request.outcomes))
                    self._failures = 0
                except FaultError as error:
                    requests += self._again(request, common, error)
                requests.pop(0)
        except Exception:  # The other calls are not waited for.
            take_as_heard([request.outcomes for request in requests])
            raise
        return Outcomes.joined(found)

    def close(self) -> None:
        """End the players."""
        if self._local is not None:
            self._local.close()
        for player in self._players.values():
            kernel.kill(player.handle)
        self._players.clear()

    def _start(self, place: RunnerPlace) -> None:
        options = {"num_cpus": 1, **(self._group.options or {})}
        handle = kernel.remote(**options)(PlayerActor).remote(self._trials, place)
        self._players[place.index] = _Player(place, handle)

    def _dealt(self, trials: Sequence[Trial], common: _Generation) -> list[_PlayRequest]:
        """Deal trials out to all players: one after the other, so that each gets of all kinds."""
        players = sorted(self._players)
        return [self._ask(index, trials[first :: len(players)], common) for first, index in enumerate(players)]

    def _ask(self, index: int, trials: Sequence[Trial], common: _Generation) -> _PlayRequest:
        play = self._players[index].handle.play
        return _PlayRequest(index, trials, play.remote(trials, common.vector, common.number, common.statistics))

    def _again(self, request: _PlayRequest, common: _Generation, error: FaultError) -> list[_PlayRequest]:
        """Have the trials of a player that died played again: by another in its place, or by all others."""
        recovery = self._group.recovery
        self._failures += 1
        player = self._players.pop(request.index, None)
        _log.warning("runner %d died while it played %d episodes: %s", request.index, len(request.trials), error)
        if recovery is None or self._failures > self._group.tolerated_failures:
            raise RunnersLostError(_lost(request.index, self._failures, error)) from error
        if recovery == "ignore":
            if not self._players:
                raise RunnersLostError(_lost(request.index, self._failures, error)) from error
            return self._dealt(request.trials, common)
        if player is not None:
            self._start(replace(player.place, incarnation=player.place.incarnation + 1))
        return [self._ask(request.index, request.trials, common)]


def _lost(index: int, failures: int, error: FaultError) -> str:
    return (
        f"runner {index} died, {failures} died one after another, and none takes its place: {error}. Look at what "
        "its environments do; `.fault_tolerance(recovery='recreate')` replaces runners, and "
        "`num_consecutive_env_runner_failures_tolerance` says how often."
    )
