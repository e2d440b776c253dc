"""Actions that are other ones in each step, of which an observation tells which may be taken, and what they look like.

    python -m kernel_rllib.examples.parametric_actions_cartpole --run PPO

Of ten places two hold an action, told by its vector. A model of its own gives an action the inner product of its vector
and what it wants, and none to those that may not be taken.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs.games.parametric_cart_pole import ParametricActionsCartPole
from kernel_rllib.examples.parametric_actions_model import ParametricActionsModel, ParametricActionsQModel
from kernel_rllib.examples.running import arguments_of, trained

SEEN = 4
"""The width of the cart's observation."""
RUN = "--run"


def ppo_config() -> Any:
    """Return the settings of PPO."""
    model = {"custom_model": ParametricActionsModel, "custom_model_config": {"seen": SEEN}}
    return (
        PPOConfig()
        .environment(ParametricActionsCartPole)
        .env_runners(num_env_runners=0, num_envs=8)
        .training(
            train_batch_size=1024, minibatch_size=128, num_epochs=8, lr=1e-3, lambda_=0.95, grad_clip=0.5, model=model,
            use_kl_loss=False,
        )
    )  # fmt: skip


def dqn_config() -> Any:
    """Return the settings of DQN: the model itself gives values of actions, so there are no further layers."""
    model = {"custom_model": ParametricActionsQModel, "custom_model_config": {"seen": SEEN}}
    return (
        DQNConfig()
        .environment(ParametricActionsCartPole)
        .env_runners(num_env_runners=0, num_envs=8)
        .training(
            lr=1e-3, train_batch_size=64, training_intensity=32, target_network_update_freq=500, hiddens=[],
            dueling=False, model=model, epsilon=[[0, 1.0], [10_000, 0.05]],
        )
        .reporting(min_time_s_per_iteration=0)
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> float:
    """Train by the algorithm that `--run` names, PPO or DQN, and return the mean return at the end."""
    given = list(sys.argv[1:] if argv is None else argv)
    run = "PPO"
    if RUN in given:
        place = given.index(RUN)
        run = given[place + 1]
        del given[place : place + 2]
    arguments = arguments_of(given, __doc__, reward=150.0, iterations=200)
    config = {"PPO": ppo_config, "DQN": dqn_config}[run]()
    return trained(config.debugging(seed=arguments.seed), arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
