"""A training loop of one's own, of workers and a policy of one's own: no algorithm has a part in it.

    python -m kernel_rllib.examples.rollout_worker_custom_workflow

Workers are actors. Each samples with the weights of now; one policy learns from all samples, by the policy gradient of
a linear policy (Williams 1992) with the mean return as baseline.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

import kernel
from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch
from kernel_rllib.examples.running import arguments_of
from kernel_rllib.first_generation.policy import Policy
from kernel_rllib.first_generation.rollout_worker import WorkerSet

GAMMA, WORKERS = 0.99, 2


class LinearPolicy(Policy):
    """Draws actions by a softmax of linear scores, and learns by REINFORCE."""

    def __init__(self, observation_space: Any, action_space: Any, config: Any) -> None:
        """Begin with scores of 0."""
        super().__init__(observation_space, action_space, config)
        self.weights = np.zeros((observation_space.shape[0], action_space.n))
        self._draws = np.random.default_rng(int(config.get("seed") or 0) + 1000 * int(config.get("worker_index") or 0))

    def compute_actions(self, obs_batch: Any, *more: Any, **named: Any) -> Any:
        """Return drawn actions [N], nothing to remember, and no further columns."""
        uniforms = self._draws.random((len(obs_batch), 1))
        return (self.shares(obs_batch).cumsum(axis=1) < uniforms).sum(axis=1), [], {}

    def learn_on_batch(self, samples: Batch) -> dict[str, Any]:
        """Make a step of REINFORCE; return what is reported."""
        returns = _returns(samples["rewards"], samples["dones"])
        worth = (returns - returns.mean()) / max(returns.std(), 1e-6)
        chosen = np.eye(self.weights.shape[1])[samples["actions"]]
        slope = samples["obs"].T @ ((chosen - self.shares(samples["obs"])) * worth[:, None]) / samples.count
        self.weights = self.weights + 2.0 * slope
        return {"mean_return": float(returns.mean())}

    def shares(self, obs: Any) -> Array:
        """Return how likely actions are [N, A]."""
        scores = np.exp(np.asarray(obs) @ self.weights)
        likely: Array = scores / scores.sum(axis=1, keepdims=True)
        return likely

    def get_weights(self) -> dict[str, Any]:
        """Return the weights."""
        return {"linear": self.weights}

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Take these weights."""
        self.weights = np.array(weights["linear"])


def _returns(rewards: Array, dones: Array) -> Array:
    found, following = np.zeros(len(rewards)), 0.0
    for row in reversed(range(len(rewards))):
        following = rewards[row] + (0.0 if dones[row] else GAMMA * following)
        found[row] = following
    return found


def make_workers(workers: int, seed: int | None = None, steps: int = 500) -> WorkerSet:
    """Return workers that balance cart-poles: in so many actors, or, without any, here."""
    settings = {"rollout_fragment_length": steps, "seed": seed}
    return WorkerSet(lambda config: gymnasium.make("CartPole-v1"), LinearPolicy, settings, workers)


def train_once(workers: WorkerSet) -> float:
    """Let all workers sample, learn from what they bring, and give them the new weights; return the mean return."""
    local = workers.local_worker()
    remote = workers.remote_workers()
    samples = kernel.get([worker.sample.remote() for worker in remote]) if remote else [local.sample()]
    batch: Any = Batch.concat_samples(samples)
    local.get_policy().learn_on_batch(batch)
    weights = local.get_weights()
    kernel.get([worker.set_weights.remote(weights) for worker in remote])
    return float(batch["rewards"].sum() / max(batch["dones"].sum(), 1))


def main(argv: Sequence[str] | None = None) -> float:
    """Train, and return the mean return at the end."""
    arguments = arguments_of(argv, __doc__, reward=150.0, iterations=60)
    workers = make_workers(WORKERS, arguments.seed)
    reached = float("-inf")
    try:
        for iteration in range(arguments.stop_iters):
            reached = train_once(workers)
            sys.stdout.write(f"{iteration + 1}: mean return {reached:.2f}\n")
            if reached >= arguments.stop_reward:
                break
    finally:
        workers.stop()
    if arguments.as_test and reached < arguments.stop_reward:
        raise RuntimeError(f"the mean return is {reached:.2f}, and should have become {arguments.stop_reward}")
    return reached


if __name__ == "__main__":
    main(sys.argv[1:])
