"""PPO with a critic that sees all agents, by the environment: each gets what the others see, and its policy ignores it.

    python -m kernel_rllib.examples.centralized_critic_2

The algorithm is as it is. The environment shows each agent its own observation and, behind it, that of the other; the
model has a policy that sees the first alone, and a value function that sees both.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs.games.two_step_game import TwoStepGame
from kernel_rllib.envs.multi_agent import Dicts, MultiAgentEnv
from kernel_rllib.examples.centralized_critic_model import CentralizedCriticModel
from kernel_rllib.examples.running import arguments_of, trained
from kernel_rllib.spaces.flatten import one_hot

OWN = 6
"""The width of an agent's own observation."""


class GlobalObsTwoStepGame(MultiAgentEnv):
    """The game of two steps, in which each agent is shown what it sees and then what the other sees."""

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        self.game = TwoStepGame(env_config)
        self.agents = self.possible_agents = self.game.agents
        self.observation_space = spaces.Box(0.0, 1.0, (2 * OWN,), np.float32)
        self.action_space = self.game.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin an episode."""
        seen, infos = self.game.reset(seed=seed)
        return self._shared(seen), infos

    def step(self, action_dict: Mapping[Any, Any]) -> Dicts:  # type: ignore[override]
        """Make a step."""
        seen, *others = self.game.step(action_dict)
        return (self._shared(seen), *others)  # type: ignore[return-value]

    def _shared(self, seen: Mapping[Any, int]) -> dict[Any, Any]:
        rows = {agent: one_hot(np.array(each), OWN) for agent, each in seen.items()}
        return {agent: np.concatenate([rows[agent], rows[1 - agent]]) for agent in rows}


def make_config(seed: int | None = None) -> PPOConfig:
    """Return the settings."""
    return (
        PPOConfig()
        .environment(GlobalObsTwoStepGame)
        .env_runners(num_env_runners=0, num_envs=4, batch_mode="complete_episodes", rollout_fragment_length=64)
        .multi_agent(policies=["first", "second"], policy_mapping_fn={0: "first", 1: "second"})
        .training(
            train_batch_size=256,
            minibatch_size=128,
            num_epochs=8,
            lr=1e-3,
            entropy_coeff=[[0, 0.1], [20_000, 0.0]],
            model={"custom_model": CentralizedCriticModel, "custom_model_config": {"own": OWN, "seen": 2 * OWN}},
        )
        .debugging(seed=seed)
    )


def main(argv: Sequence[str] | None = None) -> float:
    """Train, and return the mean return at the end."""
    arguments = arguments_of(argv, __doc__, reward=7.0, iterations=100)
    return trained(make_config(arguments.seed), arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
