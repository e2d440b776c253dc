"""PPO with two actions a step, of which the second is chosen by what the first one is: p(a, b) = p(a) p(b | a).

    python -m kernel_rllib.examples.autoregressive_action_dist

The model gives the logits of the second action for each first one, and the distribution draws one after the other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.distributions.autoregressive import AutoregressiveCategorical
from kernel_rllib.envs.games.correlated_actions import CorrelatedActionsEnv
from kernel_rllib.examples.autoregressive_action_model import AutoregressiveActionModel
from kernel_rllib.examples.running import arguments_of, trained


def make_config(seed: int | None = None) -> PPOConfig:
    """Return the settings."""
    return (
        PPOConfig()
        .environment(CorrelatedActionsEnv)
        .env_runners(num_env_runners=0, num_envs=4, rollout_fragment_length=100)
        .training(
            gamma=0.5,
            train_batch_size=400,
            minibatch_size=100,
            num_epochs=8,
            lr=3e-3,
            model={"custom_model": AutoregressiveActionModel, "custom_action_dist": AutoregressiveCategorical},
        )
        .debugging(seed=seed)
    )


def main(argv: Sequence[str] | None = None) -> float:
    """Train, and return the mean return at the end."""
    arguments = arguments_of(argv, __doc__, reward=190.0, iterations=100)
    return trained(make_config(arguments.seed), arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
