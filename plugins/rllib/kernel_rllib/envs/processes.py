"""Lanes in processes of their own, which see the same memory: for environments that take longer than about 0.05 ms.

A step costs each process one byte to wake it and one byte back; observations, rewards and actions lie in shared memory.
With two parts the lanes are halved: a runner sends the actions of one half, and computes those of the other meanwhile.
The processes end with the one that made them. One that dies otherwise is a fault of its lanes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from gymnasium import Space

from kernel_rllib.envs.contract import Step
from kernel_rllib.envs.each import for_lanes_from
from kernel_rllib.envs.lanes import EndlessWatch, checked_seeds
from kernel_rllib.envs.process_pool import Infos, ProcessPool, divided
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.nested import Struct


class ProcessPart:
    """Some of the lanes, stepped apart from the others: `send` the actions, do something else, and `receive`.

    Else it is as `contract.VectorEnv` says.
    """

    independent_lanes = True

    def __init__(self, pool: ProcessPool, index: int) -> None:
        self._pool = pool
        self._index = index
        self._ranges = pool.layout[index]
        self._first = self._ranges[0].start
        self.lanes = range(self._first, self._ranges[-1].stop)
        self.num_lanes = len(self.lanes)
        self.observation_space: Space[Any] = pool.observation_space
        self.action_space: Space[Any] = pool.action_space
        self.reset_infos: Infos = {}
        mine = slice(self._first, self._first + self.num_lanes)
        self._obs = [nested.rows(struct, mine) for struct in pool.slots.obs]
        self._final_obs = nested.rows(pool.slots.final_obs, mine)
        self._actions = nested.rows(pool.slots.actions, mine)
        self._rewards = pool.slots.rewards[mine]
        self._terminateds = pool.slots.terminateds[mine]
        self._truncateds = pool.slots.truncateds[mine]
        self._watch = EndlessWatch(pool.name, self.num_lanes)
        self._sent = False

    def reset(self, seeds: Sequence[int | None]) -> Struct:
        """Begin a new episode in each lane, and return the first observations [lanes, ...]."""
        checked = checked_seeds(seeds, self.num_lanes)
        if self._sent:  # An error elsewhere came between: the answer will not be received.
            with suppress(Exception):
                self.receive()
        self.reset_infos = self._pool.reset_part(self._index, checked)
        return self._obs[self._pool.turns[self._index]]

    def step(self, actions: Struct) -> Step:
        """Do one action in each lane; see `contract.VectorEnv.step`."""
        self.send(actions)
        return self.receive()

    def send(self, actions: Struct) -> None:
        """Have each lane do an action, and return at once; `receive` waits for them."""
        if self._sent:
            raise EnvError(f"{self._pool.name}: send() was called twice: call receive() between")
        try:
            nested.write(self._actions, actions)
        except (TypeError, ValueError, KeyError) as error:
            raise EnvError(
                f"{self._pool.name}: the actions don't fit {self.num_lanes} lanes of {self.action_space}: {error}"
            ) from error
        self._sent = True
        self._pool.start(self._index)

    def receive(self) -> Step:
        """Wait for the steps that `send` began, and return what they gave."""
        if not self._sent:
            raise EnvError(f"{self._pool.name}: receive() was called without send()")
        self._sent = False
        infos: Infos = {}
        reset_infos: Infos = {}
        faults: dict[int, Exception] = {}
        lost: list[int] = []
        raised: Exception | None = None
        for worker, lanes in enumerate(self._ranges):
            try:
                told, fault = self._pool.finish(self._index, worker)
            except Exception as error:  # The other answers are read too: the next step would take them for its own.
                raised = raised or error
                continue
            offset = lanes.start - self._first
            if fault is not None:
                here = range(offset, offset + len(lanes))
                lost += here
                faults.update(dict.fromkeys(here, fault))
                self._rewards[offset : offset + len(lanes)] = 0.0
                self._terminateds[offset : offset + len(lanes)] = False
                self._truncateds[offset : offset + len(lanes)] = True
            targets: tuple[dict[int, Any], ...] = (infos, reset_infos, faults)
            for target, by_lane in zip(targets, told, strict=True):
                target.update({offset + lane: value for lane, value in by_lane.items()})
        if raised is not None:
            raise raised
        turn = self._pool.turns[self._index]
        obs = self._obs[turn]
        ended = (self._terminateds | self._truncateds).nonzero()[0].tolist()
        if not ended:
            self._watch.stepped()
            return Step(obs, self._rewards, self._terminateds, self._truncateds, {}, infos)
        self._watch.ended()
        before = self._obs[1 - turn]
        final_obs = {lane: nested.row(before if lane in lost else self._final_obs, lane) for lane in ended}
        return Step(
            obs,
            self._rewards,
            self._terminateds,
            self._truncateds,
            final_obs,
            infos,
            reset_infos,
            faults,
            tuple(faults),
        )

    def reset_lane(self, lane: int, seed: int | None = None) -> Struct:
        """Give up the episode of one lane, begin the next, and return its first observation."""
        worker, local = self._place(lane)
        row, infos = self._pool.request(worker, "reset_lane", self._index, local, seed)
        self._pool.seeded(self._first + lane, seed)
        self.reset_infos = {lane: infos[local]} if infos else {}
        for struct in self._obs:  # in both places: where the process is a new one, the next step tells from the other
            nested.write_row(struct, lane, row)
        return row

    def foreach(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function, which goes to the other processes, returns for each environment."""
        found = []
        for worker, lanes in enumerate(self._ranges):
            own = for_lanes_from(lanes.start, function)
            found += self._pool.request(worker, "foreach", self._index, own)
        return found

    def render(self, lane: int = 0) -> Any:
        """Return what the environment of a lane draws."""
        worker, local = self._place(lane)
        return self._pool.request(worker, "render", self._index, local)

    def snapshot(self, lane: int) -> bytes:
        """Return the state of a lane. Raises EnvError where its environment can't be copied."""
        worker, local = self._place(lane)
        snapshot: bytes = self._pool.request(worker, "snapshot", self._index, local)
        return snapshot

    def restore(self, lane: int, snapshot: bytes) -> None:
        """Put a lane where it was when the snapshot was taken."""
        worker, local = self._place(lane)
        self._pool.request(worker, "restore", self._index, local, snapshot)

    def close(self) -> None:
        """End the processes, which all parts share."""
        self._pool.close()

    def _place(self, lane: int) -> tuple[int, int]:
        """Return the process of a lane, and its number there."""
        worker = next(index for index, lanes in enumerate(self._ranges) if self._first + lane in lanes)
        return worker, self._first + lane - self._ranges[worker].start


class ProcessesEnv:
    """Steps environments in several processes at once; see `contract.VectorEnv`.

    makers: one for each lane. num_processes: how many; by default one for each core, and never more than lanes.
    num_parts: 2 makes halves that can be stepped apart, in `parts`. restart_failed: whether lanes whose environment
    raises, or whose process dies, are made and reset anew, and reported in `Step.faults`. settings: further arguments
    of `LoopEnv`.

    Raises EnvError where an environment can't be made, SpaceError for spaces that no shared memory can hold.
    """

    independent_lanes = True

    def __init__(
        self,
        makers: Sequence[Callable[[], Any]],
        *,
        num_processes: int | None = None,
        num_parts: int = 1,
        restart_failed: bool = False,
        **settings: Any,
    ) -> None:
        if len(makers) < max(num_parts, 1):
            raise EnvError(f"{len(makers)} lanes can't be divided into {num_parts} parts: use a lane for each at least")
        count = min(num_processes or os.cpu_count() or 1, len(makers) // num_parts)
        self._pool = ProcessPool(makers, divided(len(makers), count, num_parts), restart_failed, settings)
        self.parts = [ProcessPart(self._pool, index) for index in range(num_parts)]
        self.num_lanes = len(makers)
        self.observation_space: Space[Any] = self._pool.observation_space
        self.action_space: Space[Any] = self._pool.action_space
        self.reset_infos: Infos = {}

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [worker.process.pid for worker in self._pool.workers]

    def reset(self, seeds: Sequence[int | None]) -> Struct:
        """Begin a new episode in each lane, and return the first observations [lanes, ...]."""
        checked = checked_seeds(seeds, self.num_lanes)
        obs = [part.reset([checked[lane] for lane in part.lanes]) for part in self.parts]
        self.reset_infos = _joined([part.reset_infos for part in self.parts], self.parts)
        return obs[0] if len(obs) == 1 else nested.concatenate(obs)

    def step(self, actions: Struct) -> Step:
        """Do one action in each lane; see `contract.VectorEnv.step`."""
        if len(self.parts) == 1:
            return self.parts[0].step(actions)
        for part in self.parts:
            part.send(nested.rows(actions, slice(part.lanes.start, part.lanes.stop)))
        steps = [part.receive() for part in self.parts]
        obs, rewards, terminateds, truncateds = (
            nested.concatenate([step[field] for step in steps]) for field in range(4)
        )
        final_obs, infos, reset_infos, faults = (
            _joined([step[field] for step in steps], self.parts) for field in range(4, 8)
        )
        return Step(obs, rewards, terminateds, truncateds, final_obs, infos, reset_infos, faults, tuple(faults))

    def reset_lane(self, lane: int, seed: int | None = None) -> Struct:
        """Give up the episode of one lane, begin the next, and return its first observation."""
        part, local = self._place(lane)
        row = part.reset_lane(local, seed)
        self.reset_infos = {lane: part.reset_infos[local]} if part.reset_infos else {}
        return row

    def foreach(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function, which goes to the other processes, returns for each environment."""
        return [value for part in self.parts for value in part.foreach(function)]

    def render(self, lane: int = 0) -> Any:
        """Return what the environment of a lane draws."""
        part, local = self._place(lane)
        return part.render(local)

    def snapshot(self, lane: int) -> bytes:
        """Return the state of a lane. Raises EnvError where its environment can't be copied."""
        part, local = self._place(lane)
        return part.snapshot(local)

    def restore(self, lane: int, snapshot: bytes) -> None:
        """Put a lane where it was when the snapshot was taken."""
        part, local = self._place(lane)
        part.restore(local, snapshot)

    def close(self) -> None:
        """End the processes."""
        self._pool.close()

    def _place(self, lane: int) -> tuple[ProcessPart, int]:
        part = next(part for part in self.parts if lane in part.lanes)
        return part, lane - part.lanes.start


def _joined(by_lane: list[Any], parts: list[ProcessPart]) -> dict[int, Any]:
    """Return dicts by lane of each part as one, by lane of all."""
    pairs = zip(by_lane, parts, strict=True)
    return {part.lanes.start + lane: value for values, part in pairs for lane, value in values.items()}
