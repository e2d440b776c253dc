"""A policy optimizer whose batches are larger than memory: gradients of parts are added up, then applied once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.errors import ConfigError
from kernel_rllib.first_generation.policy_optimizers import PolicyOptimizer, sampled_by_all
from kernel_rllib.first_generation.rollout_worker import WorkerSet


class MicrobatchOptimizer(PolicyOptimizer):
    """Computes gradients of small batches until they are enough, and applies the sum of them."""

    def __init__(self, workers: WorkerSet, train_batch_size: int = 10000, microbatch_size: int = 1000) -> None:
        """Say how much is learned from.

        Args:
            workers: The workers. Without any elsewhere, the local one samples.
            train_batch_size: The least number of steps of an update.
            microbatch_size: The least number of steps of which gradients are computed at once.

        Raises:
            ConfigError: If a part is larger than the whole.
        """
        super().__init__(workers)
        if not 0 < microbatch_size <= train_batch_size:
            raise ConfigError(
                f"microbatch_size={microbatch_size} must be above 0, and at most train_batch_size={train_batch_size}"
            )
        self._least, self._part = train_batch_size, microbatch_size
        self._reported: dict[str, Any] = {}

    def step(self) -> dict[str, Any]:
        """Hand weights over, sample and add gradients up until they are enough, and make one step."""
        local, total, steps = self.workers.local_worker(), {}, 0  # type: ignore[var-annotated]
        while steps < self._least:
            batch = sampled_by_all(self.workers, self._part, send_weights=steps == 0)
            gradients, self._reported = local.compute_gradients(batch)
            total = {name: added(total[name], found) if total else found for name, found in gradients.items()}
            steps += batch.count
        local.apply_gradients(total)
        self.num_steps_sampled += steps
        self.num_steps_trained += steps
        return self._reported

    def stats(self) -> dict[str, Any]:
        """Return the numbers of steps, and as `learner` what was reported with the last gradient."""
        return {**super().stats(), "learner": self._reported}


def added(left: Any, right: Any) -> Any:
    """Return the sum of two gradients: numbers, arrays, or lists and dicts of them; None counts as 0."""
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, Mapping):
        return {name: added(value, right[name]) for name, value in left.items()}
    if isinstance(left, (list, tuple)):
        return [added(one, other) for one, other in zip(left, right, strict=True)]
    return np.add(left, right)
