"""Policy optimizers that learn from what was sampled before: of single rows as DQN, and of whole batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel_rllib.data.batch import MultiAgentBatch
from kernel_rllib.errors import ConfigError
from kernel_rllib.first_generation.local_replay_buffer import LocalReplayBuffer, errors_of
from kernel_rllib.first_generation.policy_optimizers import PolicyOptimizer, sampled_by_all
from kernel_rllib.first_generation.rollout_worker import WorkerSet
from kernel_rllib.nn.schedules import PiecewiseSchedule


class SyncReplayOptimizer(PolicyOptimizer):
    """Samples, keeps single rows, and learns from rows that it draws: by priority, or all alike."""

    def __init__(
        self,
        workers: WorkerSet,
        learning_starts: int = 1000,
        buffer_size: int = 10000,
        prioritized_replay: bool = True,
        prioritized_replay_alpha: float = 0.6,
        prioritized_replay_beta: float = 0.4,
        prioritized_replay_eps: float = 1e-6,
        final_prioritized_replay_beta: float = 0.4,
        train_batch_size: int = 32,
        before_learn_on_batch: Callable[[MultiAgentBatch, dict[str, Any], int], MultiAgentBatch] | None = None,
        synchronize_sampling: bool = False,
        prioritized_replay_beta_annealing_timesteps: float = 100_000 * 0.2,
    ) -> None:
        """Say what is kept, and how it is drawn.

        Args:
            workers: The workers. Without any elsewhere, the local one samples.
            learning_starts: The number of steps that are sampled before the first update.
            buffer_size: The number of rows of each policy that are kept.
            prioritized_replay: Whether rows with large errors are drawn more often; policies report a `td_error`.
            prioritized_replay_alpha, prioritized_replay_beta, prioritized_replay_eps: See `PrioritizedReplay`.
            final_prioritized_replay_beta: What beta is at last.
            train_batch_size: The number of rows of an update.
            before_learn_on_batch: Called with what was drawn, the policies by their ids, and the size; returns what is
                learned from.
            synchronize_sampling: Whether rows of all policies are those of the same moments.
            prioritized_replay_beta_annealing_timesteps: The number of steps learned from until beta is the final one.

        Raises:
            ConfigError: If so few rows are kept that learning never begins.
        """
        super().__init__(workers)
        if buffer_size < min(learning_starts, train_batch_size):
            raise ConfigError(
                f"a replay of buffer_size={buffer_size} rows is less than train_batch_size={train_batch_size}: "
                "make it larger"
            )
        ends = [(0.0, prioritized_replay_beta)]
        ends += [(prioritized_replay_beta_annealing_timesteps, final_prioritized_replay_beta)]
        self._replay = LocalReplayBuffer(
            learning_starts=learning_starts,
            buffer_size=buffer_size,
            replay_batch_size=train_batch_size,
            prioritized_replay=prioritized_replay,
            prioritized_replay_alpha=prioritized_replay_alpha,
            prioritized_replay_beta=PiecewiseSchedule(ends),
            prioritized_replay_eps=prioritized_replay_eps,
        )
        self._has_priorities, self._is_synchronized = prioritized_replay, synchronize_sampling
        self._prepare, self._size = before_learn_on_batch, train_batch_size
        self._reported: dict[str, Any] = {}

    def step(self) -> dict[str, Any]:
        """Hand weights over, sample once, and learn once; return what policies report, {} before learning starts."""
        self.num_steps_sampled += _kept(self.workers, self._replay)
        drawn = self._replay.replay(self.num_steps_trained, self._is_synchronized)
        if drawn is None:
            return {}
        local = self.workers.local_worker()
        if self._prepare is not None:
            drawn = self._prepare(drawn, local.policy_map, self._size)
        self._reported = local.learn_on_batch(drawn)  # type: ignore[arg-type]
        if self._has_priorities:
            self._replay.update_priorities(errors_of(drawn, self._reported))
        self.num_steps_trained += drawn.count
        return self._reported

    def stats(self) -> dict[str, Any]:
        """Return the numbers of steps, what policies reported last as `learner`, and what the replay holds."""
        return {**super().stats(), "learner": self._reported, "replay": self._replay.stats()}


class SyncBatchReplayOptimizer(PolicyOptimizer):
    """Samples, keeps whole batches, and learns from as many of them as are enough: for policies that remember."""

    def __init__(
        self, workers: WorkerSet, learning_starts: int = 1000, buffer_size: int = 10000, train_batch_size: int = 32
    ) -> None:
        """Say what is kept.

        Args:
            workers: The workers. Without any elsewhere, the local one samples.
            learning_starts: The number of steps that are sampled before the first update.
            buffer_size: The number of steps of all batches that are kept; the newest batch always is.
            train_batch_size: The least number of steps of an update.
        """
        super().__init__(workers)
        self._replay = LocalReplayBuffer(
            learning_starts=learning_starts,
            buffer_size=buffer_size,
            replay_batch_size=train_batch_size,
            prioritized_replay=False,
            replay_mode="whole_batches",
        )
        self._reported: dict[str, Any] = {}

    def step(self) -> dict[str, Any]:
        """Hand weights over, sample once, and learn once; return what policies report, {} before learning starts."""
        self.num_steps_sampled += _kept(self.workers, self._replay)
        drawn = self._replay.replay()
        if drawn is None:
            return {}
        self._reported = self.workers.local_worker().learn_on_batch(drawn)  # type: ignore[arg-type]
        self.num_steps_trained += drawn.count
        return self._reported

    def stats(self) -> dict[str, Any]:
        """Return the numbers of steps, what policies reported last as `learner`, and what the replay holds."""
        return {**super().stats(), "learner": self._reported, "replay": self._replay.stats()}


def _kept(workers: WorkerSet, replay: LocalReplayBuffer) -> int:
    """Let all workers sample once, keep that, and return how many steps it has."""
    batch = sampled_by_all(workers, 1)
    replay.add_batch(batch)
    return batch.count
