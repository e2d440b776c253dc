"""A policy of the first generation that is easy to follow, and workers that sample with it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from kernel_rllib.first_generation.policy import Policy
from kernel_rllib.first_generation.rollout_worker import WorkerSet


class SummingPolicy(Policy):
    """Its weight is the number of rows that it learned from; what it learned from is kept."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.learned = 0.0
        self.batches: list[Any] = []

    def compute_actions(self, obs_batch: Any, state_batches: Any = None, *ignored: Any, **named: Any) -> Any:
        """Return 0 for each observation."""
        return np.zeros(len(obs_batch), np.int64), [], {}

    def learn_on_batch(self, samples: Any) -> Any:
        """Count the rows."""
        self.batches.append(samples)
        self.learned += samples.count
        return {"rows": samples.count}

    def compute_gradients(self, postprocessed_batch: Any) -> Any:
        """Return the number of rows."""
        return postprocessed_batch.count, {"seen": self.learned}

    def apply_gradients(self, gradients: Any) -> None:
        """Add it."""
        self.learned += gradients

    def get_weights(self) -> Any:
        """Return the number of rows."""
        return {"learned": self.learned}

    def set_weights(self, weights: Any) -> None:
        """Go on with this number."""
        self.learned = weights["learned"]


def workers_of(number: int, policy: type[Policy] = SummingPolicy) -> WorkerSet:
    """Return a local worker and so many others, which play CartPole in samples of ten steps."""
    settings = {"num_cpus_per_worker": 0, "rollout_fragment_length": 10, "seed": 1}
    return WorkerSet(lambda config: gymnasium.make("CartPole-v1"), policy, settings, number)
