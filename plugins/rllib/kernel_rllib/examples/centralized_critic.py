"""PPO with a critic that sees what the other agent saw and did; each agent acts by what it sees itself.

    python -m kernel_rllib.examples.centralized_critic

Runners know nothing of it. Between sampling and learning, `learn_policies` puts what the other did beside what each
agent saw. The game is that of two steps: the agents get 7 for the safe choice, and 8 for one that needs both.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.data import columns
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.envs.games.two_step_game import TwoStepGame
from kernel_rllib.examples.centralized_critic_model import CentralizedCriticModel
from kernel_rllib.examples.running import arguments_of, trained
from kernel_rllib.learners.learner import Metrics
from kernel_rllib.spaces.flatten import one_hot

OWN, ACTIONS = 6, 2
"""The width of an agent's observation in the game, and the number of actions."""


class CentralizedCriticPPO(PPO):
    """PPO for two agents with a policy each."""

    def learn_policies(self, chosen: Sequence[str], fragments: Mapping[str, Sequence[Fragment]]) -> dict[str, Metrics]:
        """Let each policy learn from what it did, with what the other saw and did beside what it saw."""
        one, other = fragments
        pairs = list(zip(fragments[one], fragments[other], strict=True))
        beside = {
            one: [with_other(mine, theirs) for mine, theirs in pairs],
            other: [with_other(mine, theirs) for theirs, mine in pairs],
        }
        return super().learn_policies(chosen, beside)


def with_other(mine: Fragment, theirs: Fragment) -> Fragment:
    """Return a fragment of an agent whose observations have those of the other behind them, and then its actions.

    Args:
        mine: The steps of the agent.
        theirs: The same steps of the other.
    """
    done = one_hot(theirs.columns[columns.ACTIONS], ACTIONS)
    seen = np.concatenate([mine.columns[columns.OBS], theirs.columns[columns.OBS], done], axis=-1)

    def beyond(own: Any, others: Any) -> Any:
        nothing = np.zeros((len(own), ACTIONS), np.float32)  # The other agent's next action is not known yet.
        return np.concatenate([own, others, nothing], axis=-1)

    return replace(
        mine,
        columns={**mine.columns, columns.OBS: seen},
        last_obs=beyond(mine.last_obs, theirs.last_obs),
        final_obs=beyond(mine.final_obs, theirs.final_obs),
    )


def make_config(seed: int | None = None) -> PPOConfig:
    """Return the settings."""
    return (
        PPOConfig(algo_class=CentralizedCriticPPO)
        .environment(TwoStepGame)
        .env_runners(num_env_runners=0, num_envs=4, batch_mode="complete_episodes", rollout_fragment_length=64)
        .multi_agent(policies=["first", "second"], policy_mapping_fn={0: "first", 1: "second"})
        .training(
            train_batch_size=256,
            minibatch_size=128,
            num_epochs=8,
            lr=1e-3,
            entropy_coeff=[[0, 0.1], [20_000, 0.0]],
            model={
                "custom_model": CentralizedCriticModel,
                "custom_model_config": {"own": OWN, "seen": 2 * OWN + ACTIONS},
            },
        )
        .debugging(seed=seed)
    )


def main(argv: Sequence[str] | None = None) -> float:
    """Train, and return the mean return at the end."""
    arguments = arguments_of(argv, __doc__, reward=7.0, iterations=100)
    return trained(make_config(arguments.seed), arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
