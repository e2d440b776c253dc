"""PPO by a curriculum: a lock with one digit first, and one more each time that the last ones are found.

    python -m kernel_rllib.examples.curriculum_learning [--no-curriculum]

Chance finds all 15 digits once in 14 million episodes. `env_task_fn` is asked for the task of each environment after
each iteration, and environments derive from `TaskSettableEnv`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs.games.combination_lock import DIGITS, CombinationLock
from kernel_rllib.examples.running import arguments_of, trained

ENOUGH = 0.7
"""A lock that is opened in this share of episodes gets another digit."""


def next_task(result: Mapping[str, Any], env: CombinationLock, context: Any) -> int:
    """Return how many digits an environment is to have next."""
    digits = env.get_task()
    return min(digits + 1, DIGITS) if result["episode_reward_mean"] >= ENOUGH * digits else digits


def make_config(seed: int | None = None, *, curriculum: bool = True) -> PPOConfig:
    """Return the settings."""
    config = PPOConfig().environment(CombinationLock, env_config={"digits": 1 if curriculum else DIGITS})
    if curriculum:
        config.environment(env_task_fn=next_task)
    return (
        config.env_runners(num_env_runners=0, num_envs=8, rollout_fragment_length=64)
        .training(train_batch_size=512, minibatch_size=128, num_epochs=8, lr=3e-3, gamma=1.0, lambda_=0.95)
        .training(model={"fcnet_hiddens": [32]})
        .reporting(metrics_num_episodes_for_smoothing=50)
        .debugging(seed=seed)
    )


def main(argv: Sequence[str] | None = None) -> float:
    """Train, and return the mean return at the end: as many as are opened of 15 digits."""
    words = list(sys.argv[1:] if argv is None else argv)
    curriculum = "--no-curriculum" not in words
    words = [word for word in words if word != "--no-curriculum"]
    arguments = arguments_of(words, __doc__, reward=ENOUGH * DIGITS, iterations=150)
    return trained(make_config(arguments.seed, curriculum=curriculum), arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
