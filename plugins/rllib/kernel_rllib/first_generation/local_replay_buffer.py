"""Replay for optimizers of the first generation: a buffer for each policy, of single rows or of whole batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch, MultiAgentBatch, concatenated
from kernel_rllib.errors import ConfigError, RLlibError
from kernel_rllib.nn.schedules import ConstantSchedule, Schedule
from kernel_rllib.replay.prioritized import PrioritizedReplay
from kernel_rllib.replay.replay import Replay, UniformReplay


class LocalReplayBuffer:
    """Keeps what was sampled of each policy, and draws batches. It may be an actor, as any class may."""

    def __init__(
        self,
        num_shards: int = 1,
        learning_starts: int = 1000,
        buffer_size: int = 10000,
        replay_batch_size: int = 32,
        prioritized_replay: bool = True,
        prioritized_replay_alpha: float = 0.6,
        prioritized_replay_beta: float | Schedule = 0.4,
        prioritized_replay_eps: float = 1e-6,
        replay_mode: str = "independent",
        seed: int = 0,
    ) -> None:
        """Hold nothing yet.

        Args:
            num_shards: The number of such buffers that share the two numbers that follow.
            learning_starts: The number of steps before which nothing is drawn.
            buffer_size: The number of rows of each policy that are kept; the oldest ones go. Of whole batches this is
                the number of their steps together.
            replay_batch_size: The number of rows of a batch that is drawn; of whole batches the least number.
            prioritized_replay: Whether rows with large errors are drawn more often.
            prioritized_replay_alpha, prioritized_replay_beta, prioritized_replay_eps: See `PrioritizedReplay`. Where
                beta is a schedule, it goes by `timestep` of `replay`.
            replay_mode: `"independent"` for single rows, or `"whole_batches"`: batches as they were added.
            seed: The seed of draws.

        Raises:
            ConfigError: If these do not fit together.
        """
        if replay_mode not in ("independent", "whole_batches"):
            raise ConfigError(f"replay_mode is {replay_mode!r}, but must be 'independent' or 'whole_batches'")
        if replay_mode == "whole_batches" and prioritized_replay:
            raise ConfigError(
                "whole batches have no priorities, which are those of single rows: set prioritized_replay to False"
            )
        self._begins, self._capacity = learning_starts // num_shards, max(1, buffer_size // num_shards)
        self._size, self._is_whole = replay_batch_size, replay_mode == "whole_batches"
        self._alpha = prioritized_replay_alpha if prioritized_replay else None
        self._beta, self._epsilon = _schedule(prioritized_replay_beta), prioritized_replay_eps
        self._stream = np.random.default_rng(seed)
        self._replays: dict[str, Replay] = {}
        self._batches: deque[MultiAgentBatch] = deque()
        self.num_added = 0
        """The number of steps that were ever added."""

    def __len__(self) -> int:
        if self._is_whole:
            return sum(batch.count for batch in self._batches)
        return max((len(replay) for replay in self._replays.values()), default=0)

    def add_batch(self, batch: Batch | MultiAgentBatch) -> int:
        """Keep a batch, and return how many steps were ever added.

        A column `weights` of its rows has their first priorities, which new rows otherwise have the largest of.
        """
        kept = batch.as_multi_agent()
        self.num_added += kept.count
        if self._is_whole:
            self._batches.append(kept)
            while len(self) > self._capacity and len(self._batches) > 1:
                self._batches.popleft()
            return self.num_added
        for policy_id, rows in kept.policy_batches.items():
            columns = {name: column for name, column in rows.items() if column.dtype != object}
            priorities = columns.pop(Batch.WEIGHTS, None)
            self._of(policy_id).add(Batch(columns), priorities)
        return self.num_added

    def replay(self, timestep: int = 0, synchronize: bool = False) -> MultiAgentBatch | None:
        """Return a batch of each policy, or None before `learning_starts`.

        Args:
            timestep: The number of steps by which a schedule of beta goes.
            synchronize: Whether rows of all policies are those of the same moments. They have to be as many then.
        """
        if self.num_added < self._begins or not len(self):
            return None
        if self._is_whole:
            return self._whole_batches()
        state = self._stream.bit_generator.state
        drawn = {}
        for policy_id, replay in self._replays.items():
            if synchronize:
                self._stream.bit_generator.state = state
            drawn[policy_id] = replay.sample(self._size, self._stream, timestep)
        return MultiAgentBatch(drawn, self._size)

    def update_priorities(self, errors: Mapping[str, tuple[Array, Array]]) -> None:
        """Say how large the errors of rows were: by policy, their `batch_indexes` and their errors, of either sign."""
        for policy_id, (indexes, found) in errors.items():
            self._replays[policy_id].update_priorities(np.asarray(indexes), np.asarray(found, np.float64))

    def stats(self) -> dict[str, Any]:
        """Return how many steps were added, and how many of each policy there are."""
        held = {policy_id: len(replay) for policy_id, replay in self._replays.items()}
        return {"added_count": self.num_added, "num_entries": held or len(self)}

    def _of(self, policy_id: str) -> Replay:
        if policy_id not in self._replays:
            made: Replay = UniformReplay(self._capacity)
            if self._alpha is not None:
                made = PrioritizedReplay(self._capacity, alpha=self._alpha, beta=self._beta, epsilon=self._epsilon)
            self._replays[policy_id] = made
        return self._replays[policy_id]

    def _whole_batches(self) -> MultiAgentBatch:
        drawn: list[Batch | MultiAgentBatch] = []
        while sum(batch.count for batch in drawn) < self._size:
            drawn.append(self._batches[int(self._stream.integers(len(self._batches)))])
        return concatenated(drawn).as_multi_agent()


def errors_of(batch: MultiAgentBatch, reported: Mapping[str, Any]) -> dict[str, tuple[Array, Array]]:
    """Return the errors of a batch that was learned from, as `update_priorities` takes them.

    Args:
        batch: What `replay` returned.
        reported: What `learn_on_batch` of a worker returned, by policy. Each has a `td_error` of all rows, in itself or
            among its `learner_stats`.

    Raises:
        RLlibError: If a policy reports no errors, or not as many as there were rows.
    """
    found = {}
    for policy_id, told in reported.items():
        error = told.get("td_error", told.get("learner_stats", {}).get("td_error"))
        rows = batch.policy_batches[policy_id]
        if error is None or np.shape(error) != (rows.count,):
            said = "no td_error" if error is None else f"a td_error of shape {np.shape(error)}"
            raise RLlibError(
                f"the policy {policy_id!r} reports {said} for {rows.count} rows, and their priorities are made of it: "
                "report an array of as many errors, or set prioritized_replay to False"
            )
        found[policy_id] = (rows[Batch.BATCH_INDEXES], np.asarray(error))
    return found


def _schedule(beta: float | Schedule) -> Schedule:
    return ConstantSchedule(beta) if isinstance(beta, (int, float)) else beta
