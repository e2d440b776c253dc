"""Replay in several processes (Horgan et al., 2018, appendix F): samples go to shards in turn, and each draws alone.

Shards draw ahead: while the learner learns from one minibatch, they make the next ones. A shard that is behind with
what it is to keep is waited for: so runners are not asked for more than all of them together can take.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

import kernel
from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import CheckpointError, ReplayLostError
from kernel_rllib.replay.replay import require_rows
from kernel_rllib.replay.shard import Experience, MakeReplay
from kernel_rllib.replay.shard_actor import RemoteShard, start_shard
from kernel_rllib.runners.env_runner import Sample
from kernel_rllib.runners.recovery import Recovery
from kernel_rllib.runners.remote_runner import take_as_heard
from kernel_spec.errors import FaultError, ObjectLostError

_log = logging.getLogger("kernel.rllib")


class ReplayShards:
    """The shards of a run. They are started when the first sample comes."""

    def __init__(
        self,
        number: int,
        seed: int,
        *,
        most_adds: float = 4,
        recovery: Recovery | None = "recreate",
        tolerated_failures: int = 100,
        most_restarts: int = 1000,
    ) -> None:
        """Say how shards are to live.

        Args:
            number: The number of shards.
            seed: The seed of the run.
            most_adds: The largest number of samples on their way to a shard.
            recovery: The mode for the place of one that died. None: its death is an error; "ignore": the others go
                on; otherwise another one takes it, with nothing in it.
            tolerated_failures: The number of deaths in a row, without an answer between them, that are tolerated.
            most_restarts: The number of shards that may be replaced in all.
        """
        self._number, self._seed, self._most_adds = number, seed, most_adds
        self._recovery = recovery
        self._tolerated_failures, self._most_restarts = tolerated_failures, most_restarts
        self._replays: dict[str, MakeReplay] = {}
        self._shards: list[RemoteShard] = []
        self._turn = 0
        self._in_a_row = 0
        self.restarts = 0
        """The number of shards that died, including those that were replaced."""
        self.rows_lost = 0
        """The number of rows that were lost with them."""
        self.samples_lost = 0
        """The number of samples that were lost before they reached a shard, because the node that held them died."""

    def open(self, policy_id: str, make: MakeReplay) -> ShardedReplay:
        """Keep the rows of a policy, in buffers that `make` returns, one for each shard; return all of them as one."""
        self._replays[policy_id] = make
        for shard in self._shards:
            take_as_heard([shard.handle.open.remote(policy_id, make)])
        return ShardedReplay(self, policy_id)

    def add(self, sample: Sample) -> None:
        """Send a sample to the next shard; wait, where that is behind with those that it has."""
        self._start()
        self.settle()
        place = self._turn = (self._turn + 1) % len(self._shards)
        while len(self._shards[place].adding) >= self._most_adds:
            self._await_addition(self._shards[place])
            place %= len(self._shards)
        self._shards[place].add(sample if sample.ref is None else sample.ref)

    def draw(self, policy_id: str, count: int, timestep: int) -> tuple[RemoteShard, Batch]:
        """Return a minibatch, and of which shard it is; that one draws the next one at once.

        Raises:
            DataError: If all are empty.
        """
        while True:
            self.settle()
            filled = sorted((each for each in self._shards if each.rows.get(policy_id)), key=lambda each: each.draws)
            for shard in filled:
                shard.ask(policy_id, count, timestep)
            asked = {shard.drawing[policy_id]: shard for shard in filled}
            if not asked:
                self._await_rows()
                continue
            (first, *_), _ = kernel.wait(list(asked), num_returns=1)
            shard = asked[first]
            del shard.drawing[policy_id]
            try:
                batch: Batch = kernel.get(first)
            except FaultError as error:
                self._lost(shard, error)
                continue
            self._in_a_row = 0
            shard.draws += 1
            shard.ask(policy_id, count, timestep)
            return shard, batch

    def settle(self) -> None:
        """Take the answers of shards that are there."""
        for shard in list(self._shards):
            while shard in self._shards and shard.adding and _is_there(shard.adding[0].answer):
                self._await_addition(shard)

    def wait(self) -> None:
        """Wait until the shards have kept all that was sent to them."""
        while late := [shard for shard in self._shards if shard.adding]:
            self._await_addition(late[0])

    def rows(self, policy_id: str) -> int:
        """Return how many rows of a policy all shards are known to hold."""
        return sum(shard.rows.get(policy_id, 0) for shard in self._shards)

    def results(self) -> dict[str, Any]:
        """Return what is reported of them: rows, minibatches, and what is on its way, shard by shard."""
        shards = {
            f"replay_shard_{shard.index}": {
                "rows": sum(shard.rows.values()),
                "draws": shard.draws,
                "adds_in_flight": len(shard.adding),
                "draws_in_flight": len(shard.drawing),
                "incarnation": shard.incarnation,
            }
            for shard in self._shards
        }
        return {
            **shards,
            "num_replay_shard_restarts": self.restarts,
            "num_replay_rows_lost": self.rows_lost,
            "num_samples_dropped": self.samples_lost,
        }

    def state(self, policy_id: str) -> dict[str, Any]:
        """Return what all shards hold of a policy, by their numbers. Raises FaultError if one dies meanwhile."""
        self._start()
        self.wait()
        states = kernel.get([shard.handle.state.remote(policy_id) for shard in self._shards])
        return {str(shard.index): dict(state) for shard, state in zip(self._shards, states, strict=True)}

    def set_state(self, policy_id: str, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned, of as many shards.

        Raises:
            CheckpointError: If it is of another number of shards.
        """
        self._start()
        self.wait()
        if {str(shard.index) for shard in self._shards} != {*state}:
            raise CheckpointError(
                f"the checkpoint has {len(state)} shards of replay, and there are {len(self._shards)}: build the "
                f"algorithm with num_replay_buffer_shards={len(state)}"
            )
        for shard in self._shards:
            take_as_heard([shard.drawing.pop(policy_id)] if policy_id in shard.drawing else [])
            shard.rows[policy_id] = kernel.get(shard.handle.set_state.remote(policy_id, state[str(shard.index)]))

    def close(self) -> None:
        """End the actors."""
        for shard in self._shards:
            take_as_heard(shard.pending())
            kernel.kill(shard.handle)
        self._shards.clear()

    def actors(self) -> list[kernel.ActorHandle]:
        """Return the handles of the shards that there are, in the order of their numbers."""
        return [shard.handle for shard in self._shards]

    def _start(self) -> None:
        if not self._shards:
            self._shards = [start_shard(self._seed, index, 0, self._replays) for index in range(self._number)]

    def _await_addition(self, shard: RemoteShard) -> None:
        """Wait for the answer to the oldest sample that a shard is to keep; where it died, see `_lost`."""
        try:
            shard.rows = dict(kernel.get(shard.adding[0].answer))
        except ObjectLostError as error:
            shard.adding.popleft()
            self.samples_lost += 1
            _log.warning("a sample was lost on its way to replay shard %d: %s", shard.index, error)
        except FaultError as error:
            self._lost(shard, error)
        else:
            shard.adding.popleft()
            self._in_a_row = 0

    def _await_rows(self) -> None:
        """Wait for one of the samples that are on their way. Raises DataError if there are none."""
        late = [shard for shard in self._shards if shard.adding]
        if not late:
            require_rows(0)
        self._await_addition(late[0])

    def _lost(self, shard: RemoteShard, error: FaultError) -> None:
        """Let another shard take the place of one that died, if the mode says so; it is sent what was on its way.

        Raises:
            ReplayLostError: If the mode says that this is an error, no shard is left, or too many died.
        """
        take_as_heard(shard.pending())
        rows = sum(shard.rows.values())
        self.restarts += 1
        self.rows_lost += rows
        self._in_a_row += 1
        _log.warning("replay shard %d, with %d rows, died: %s", shard.index, rows, error)
        place = self._shards.index(shard)
        if self._recovery is None:
            raise ReplayLostError(_died(shard, rows, error)) from error
        if self._in_a_row > self._tolerated_failures or self.restarts > self._most_restarts:
            raise ReplayLostError(_too_many(self.restarts, self._in_a_row, error)) from error
        if self._recovery == "ignore":
            if len(self._shards) == 1:
                raise ReplayLostError(_died(shard, rows, error)) from error
            del self._shards[place]
            made = self._shards[place % len(self._shards)]
        else:
            made = start_shard(self._seed, shard.index, shard.incarnation + 1, self._replays)
            self._shards[place] = made
        for addition in shard.adding:
            made.add(addition.sample)


class ShardedReplay:
    """The rows of one policy in all shards, as one buffer: what is drawn comes from one shard at a time."""

    def __init__(self, shards: ReplayShards, policy_id: str) -> None:
        """Draw from these shards."""
        self._shards, self._policy_id = shards, policy_id
        self._drawn_of: RemoteShard | None = None

    def __len__(self) -> int:
        return self._shards.rows(self._policy_id)

    def add(self, batch: Batch, errors: Array | None = None) -> None:
        """Keep rows that were not sampled by a runner: send them as if one had made them."""
        made = {self._policy_id: Experience(batch, errors)}
        self._shards.add(Sample(fragments={}, made=made))

    def sample(self, count: int, stream: np.random.Generator, timestep: int = 0) -> Batch:
        """Return rows of the first shard that has drawn; it draws by a stream of its own, not by this one."""
        self._drawn_of, batch = self._shards.draw(self._policy_id, count, timestep)
        return batch

    def update_priorities(self, places: Array, errors: Array) -> None:
        """Tell the shard of the last minibatch how large its errors were. A dead shard is told nothing."""
        assert self._drawn_of is not None
        take_as_heard([self._drawn_of.handle.update_priorities.remote(self._policy_id, places, errors)])

    def state(self) -> Mapping[str, Any]:
        """Return what all shards hold."""
        return self._shards.state(self._policy_id)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned, of as many shards."""
        self._shards.set_state(self._policy_id, state)


def _is_there(ref: kernel.ObjectRef) -> bool:
    return bool(kernel.wait([ref], timeout=0)[0])


def _died(shard: RemoteShard, rows: int, error: FaultError) -> str:
    return (
        f"replay shard {shard.index}, with {rows} rows, died: {error}. With `.fault_tolerance(recovery='recreate')` "
        "another takes its place, with nothing in it; with `recovery='ignore'` the others go on, as long as there are "
        "any."
    )


def _too_many(deaths: int, in_a_row: int, error: FaultError) -> str:
    return (
        f"{deaths} replay shards died, the last {in_a_row} without an answer between them; the last one said: {error}. "
        "If there is too little memory, give a smaller capacity in replay_buffer_config; or tolerate more with "
        "`.fault_tolerance(num_consecutive_env_runner_failures_tolerance=..., max_num_env_runner_restarts=...)`."
    )
