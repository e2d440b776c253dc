"""The processes that step lanes: how lanes are divided among them, and what takes the place of one that died."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from kernel_rllib.envs import process_wire as wire
from kernel_rllib.envs.env_process import EnvProcess, ProcessDied, died
from kernel_rllib.envs.lane import restart_seed
from kernel_rllib.envs.shared_slots import Slots, new_memory
from kernel_rllib.errors import EnvError

_log = logging.getLogger("kernel.rllib")
_RESTART_ATTEMPTS = 3
Infos = dict[int, dict[str, Any]]


def divided(lanes: int, processes: int, parts: int) -> list[list[range]]:
    """Return the lanes of each process (by part, then by process): contiguous, and as even as can be."""
    return [
        [range(lane.start + at.start, lane.start + at.stop) for at in _ranges(len(lane), processes)]
        for lane in _ranges(lanes, parts)
    ]


def _ranges(count: int, pieces: int) -> list[range]:
    ends = [count * piece // pieces for piece in range(pieces + 1)]
    return [range(start, end) for start, end in itertools.pairwise(ends)]


class _Worker:
    """Holds a process, and the parts that are not yet told that it took the place of one that died."""

    def __init__(self, process: EnvProcess) -> None:
        self.process = process
        self.in_flight: set[int] = set()
        self.lost: dict[int, tuple[EnvError, Infos]] = {}


class ProcessPool:
    """The processes of all parts, and the memory that they share.

    layout: the lanes, by part and by process. turns: by part, in which place the last observations are.
    """

    def __init__(
        self,
        makers: Sequence[Callable[[], Any]],
        layout: list[list[range]],
        restart_failed: bool,
        settings: dict[str, Any],
    ) -> None:
        self.layout = layout
        self.turns = [0] * len(layout)
        self._makers = makers
        self._restart_failed = restart_failed
        self._settings = {**settings, "restart_failed": restart_failed}
        self._seeds: list[int | None] = [None] * len(makers)
        self._restarts = [0] * len(makers)
        self._memory = new_memory()
        self.workers: list[_Worker] = []
        try:
            for index in range(len(layout[0])):
                self.workers.append(_Worker(self._start_process(index)))
            facts = [worker.process.facts() for worker in self.workers]
            self.observation_space, self.action_space, self.name = facts[0]
            self.slots = Slots(self._memory, self.observation_space, self.action_space, len(makers), grow=True)
            for worker in self.workers:
                worker.process.request("attach", len(makers))
        except ProcessDied as error:
            self.close()
            raise EnvError(f"the environments could not be made: {error}") from None
        except BaseException:
            self.close()
            raise

    def reset_part(self, part: int, seeds: list[int | None]) -> Infos:
        """Begin an episode in each lane of a part; return what was told, by lane of the part."""
        told: Infos = {}
        first = self.layout[part][0].start
        for index, lanes in enumerate(self.layout[part]):
            mine = [seeds[lane - first] for lane in lanes]
            for lane, seed in zip(lanes, mine, strict=True):
                self.seeded(lane, seed)
            self.workers[index].lost.pop(part, None)
            infos = self.request(index, "reset", part, mine, self.turns[part])
            told.update({lanes.start - first + lane: info for lane, info in infos.items()})
        return told

    def seeded(self, lane: int, seed: int | None) -> None:
        """Remember the seed of a lane, from which those of environments that are made anew come."""
        if seed is not None:
            self._seeds[lane], self._restarts[lane] = seed, 0

    def start(self, part: int) -> None:
        """Have all processes step the lanes of a part."""
        turn = self.turns[part] = 1 - self.turns[part]
        for index, worker in enumerate(self.workers):
            if part in worker.lost:
                continue
            worker.in_flight.add(part)
            try:
                worker.process.start_step(part, turn)
            except ProcessDied as error:
                self._replace(index, error)

    def finish(self, part: int, index: int) -> tuple[tuple[Any, Any, Any], EnvError | None]:
        """Wait for a process; return infos, infos of resets and faults, and the fault of all its lanes if it died."""
        worker = self.workers[index]
        if part not in worker.lost:
            try:
                told = worker.process.finish_step(part)
                worker.in_flight.discard(part)
                return told or ({}, {}, {}), None
            except ProcessDied as error:
                self._replace(index, error)
            except Exception:  # raised by an environment
                worker.in_flight.discard(part)
                raise
        fault, infos = worker.lost.pop(part)
        return ({}, infos, {}), fault

    def request(self, index: int, method: str, *arguments: Any) -> Any:
        """Call a method of a process. Raises EnvError where it dies."""
        try:
            return self.workers[index].process.request(method, *arguments)
        except ProcessDied as error:
            raise died(self.name, error) from None

    def close(self) -> None:
        """End all processes, and let go of the memory."""
        for worker in self.workers:
            worker.process.close()
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    def _start_process(self, index: int) -> EnvProcess:
        ranges = [by_process[index] for by_process in self.layout]
        makers = [[self._makers[lane] for lane in lanes] for lanes in ranges]
        hello = wire.Hello(makers, [lanes.start for lanes in ranges], self._settings)
        return EnvProcess(hello, self._memory, " and ".join(map(_words, ranges)))

    def _replace(self, index: int, error: ProcessDied) -> None:
        """Start a process in place of one that died, with new episodes in its lanes; each part hears of it once.

        Raises EnvError where lanes are not to be restarted, or the new process dies, too.
        """
        worker = self.workers[index]
        fault = died(self.name, error)
        if not self._restart_failed:
            raise fault
        _log.warning("%s", fault)
        in_flight, worker.in_flight = worker.in_flight, set()
        for _ in range(_RESTART_ATTEMPTS):
            worker.process.close()
            worker.process = self._start_process(index)
            try:
                worker.process.facts()
                worker.process.request("attach", len(self._makers))
                for part, by_process in enumerate(self.layout):
                    # Where the part's next observations are expected, so that the last ones stay.
                    turn = self.turns[part] if part in in_flight else 1 - self.turns[part]
                    seeds = [self._next_seed(lane) for lane in by_process[index]]
                    worker.lost[part] = fault, worker.process.request("reset", part, seeds, turn)
                return
            except ProcessDied as again:
                fault = died(self.name, again)
        raise fault

    def _next_seed(self, lane: int) -> int | None:
        self._restarts[lane] += 1
        return restart_seed(self._seeds[lane], self._restarts[lane])


def _words(lanes: range) -> str:
    return f"lane {lanes.start}" if len(lanes) == 1 else f"lanes {lanes.start} to {lanes.stop - 1}"
