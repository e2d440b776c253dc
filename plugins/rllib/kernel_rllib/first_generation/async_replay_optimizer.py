"""The policy optimizer of Ape-X in the first generation: workers sample all the time into replay actors."""

from __future__ import annotations

from typing import Any

import kernel
from kernel_rllib.data.batch import MultiAgentBatch
from kernel_rllib.errors import ConfigError
from kernel_rllib.first_generation.local_replay_buffer import LocalReplayBuffer, errors_of
from kernel_rllib.first_generation.policy_optimizers import PolicyOptimizer
from kernel_rllib.first_generation.rollout_worker import WorkerSet
from kernel_rllib.first_generation.sample_requests import SampleRequests

_IN_FLIGHT = 2
"""How many samples a worker is asked for at a time."""


class AsyncReplayOptimizer(PolicyOptimizer):
    """Sends samples as they come to replay actors, and learns from what these draw, one after another."""

    def __init__(
        self,
        workers: WorkerSet,
        learning_starts: int = 1000,
        buffer_size: int = 10000,
        prioritized_replay: bool = True,
        prioritized_replay_alpha: float = 0.6,
        prioritized_replay_beta: float = 0.4,
        prioritized_replay_eps: float = 1e-6,
        train_batch_size: int = 512,
        rollout_fragment_length: int = 50,
        num_replay_buffer_shards: int = 1,
        max_weight_sync_delay: int = 400,
        debug: bool = False,
        batch_replay: bool = False,
    ) -> None:
        """Start the replay actors.

        Args:
            workers: The workers; there have to be some elsewhere.
            learning_starts: The number of steps that all replay actors hold together before the first update.
            buffer_size: The number of rows of each policy that they keep together.
            prioritized_replay: Whether rows with large errors are drawn more often; policies report a `td_error`.
            prioritized_replay_alpha, prioritized_replay_beta, prioritized_replay_eps: See `PrioritizedReplay`.
            train_batch_size: The number of rows of an update.
            rollout_fragment_length: Accepted: workers know how long their samples are.
            num_replay_buffer_shards: The number of replay actors. Samples go to them in turn.
            max_weight_sync_delay: After how many steps of its own a worker is given weights.
            debug: Whether `stats` asks the replay actors for what they hold.
            batch_replay: Whether whole batches are kept, and drawn without priorities: for policies that remember.

        Raises:
            ConfigError: If there are no workers elsewhere, or what is asked for does not fit together.
        """
        super().__init__(workers)
        if not workers.remote_workers():
            raise ConfigError(
                "AsyncReplayOptimizer has no workers elsewhere, which sample: make the WorkerSet with num_workers "
                "above 0"
            )
        given: dict[str, Any] = {
            "num_shards": num_replay_buffer_shards,
            "learning_starts": learning_starts,
            "buffer_size": buffer_size,
            "replay_batch_size": train_batch_size,
            "prioritized_replay": prioritized_replay,
            "prioritized_replay_alpha": prioritized_replay_alpha,
            "prioritized_replay_beta": prioritized_replay_beta,
            "prioritized_replay_eps": prioritized_replay_eps,
            "replay_mode": "whole_batches" if batch_replay else "independent",
        }
        LocalReplayBuffer(**given)  # What does not fit is refused here, not in an actor.
        actor = kernel.remote(num_cpus=0)(LocalReplayBuffer)
        self._shards = [actor.remote(**given, seed=index) for index in range(num_replay_buffer_shards)]
        self._has_priorities, self._delay, self._shows_shards = prioritized_replay, max_weight_sync_delay, debug
        self._requests = SampleRequests(_IN_FLIGHT)
        self._since_weights: dict[Any, int] = {}
        self._added = 0
        self.num_weight_syncs = 0
        """How often a worker was given weights."""
        self._reported: dict[str, Any] = {}

    def step(self) -> dict[str, Any]:
        """Keep one sample of a worker, then learn from what each replay actor draws.

        Returns:
            What policies report of the last update, by policy; {} before learning starts.

        Raises:
            ConfigError: If the optimizer was stopped.
        """
        if not self._shards:
            raise ConfigError("this AsyncReplayOptimizer was stopped: its replay actors have ended. Make another one")
        self._keep_next()
        for shard in self._shards:
            drawn: MultiAgentBatch | None = kernel.get(shard.replay.remote())
            if drawn is None:
                continue
            self._reported = self.workers.local_worker().learn_on_batch(drawn)  # type: ignore[arg-type]
            self.num_steps_trained += drawn.count
            if self._has_priorities:
                shard.update_priorities.remote(errors_of(drawn, self._reported))
        return self._reported

    def stop(self) -> None:
        """Drop what workers were asked for, and end the replay actors."""
        self._requests.drop()
        for shard in self._shards:
            kernel.kill(shard)
        self._shards = []

    def stats(self) -> dict[str, Any]:
        """Return the numbers of steps and of weights handed over, and as `learner` what was reported last."""
        shards = kernel.get([shard.stats.remote() for shard in self._shards]) if self._shows_shards else None
        return {
            **super().stats(),
            "num_weight_syncs": self.num_weight_syncs,
            "learner": self._reported,
            **({f"replay_shard_{index}": found for index, found in enumerate(shards)} if shards is not None else {}),
        }

    def _keep_next(self) -> None:
        """Send the next sample to a replay actor, and let its worker go on."""
        remote = self.workers.remote_workers()
        for worker in remote:
            if worker not in self._since_weights:
                self._give_weights(worker)
        self._requests.ask(remote)
        worker, found = self._requests.next()
        steps = kernel.get(found).count
        kernel.get(self._shards[self._added % len(self._shards)].add_batch.remote(found))
        self._added += 1
        self.num_steps_sampled += steps
        self._since_weights[worker] += steps
        if self._since_weights[worker] >= self._delay:
            self._give_weights(worker)
        self._requests.ask(remote)

    def _give_weights(self, worker: Any) -> None:
        worker.set_weights.remote(kernel.put(self.workers.local_worker().get_weights()))
        self._since_weights[worker] = 0
        self.num_weight_syncs += 1
