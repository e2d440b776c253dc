"""PPO for two levels of agents: one chooses goals in a maze, and others pursue one goal each.

    python -m kernel_rllib.examples.hierarchical_training [--flat]

Agents of the lower level come and go within an episode; all of them share a policy, which is told the goal beside what
is seen. It looks one step ahead (`gamma=0`), since it is told at once whether a step was a good one. Returns are those
of all agents together: below 0 as long as the lower level drifts anywhere, above it once it pursues goals, and by 100
more where the upper level has led out of the maze. With `--flat`, one agent learns the same maze by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs.games.windy_maze import HierarchicalWindyMazeEnv, WindyMazeEnv
from kernel_rllib.examples.running import arguments_of, trained

UPPER, LOWER = "high_level_policy", "low_level_policy"


def policy_of(agent_id: Any, *more: Any, **named: Any) -> str:
    """Return the policy of an agent: names of the lower level begin with `low_level_`."""
    return LOWER if str(agent_id).startswith("low_level_") else UPPER


def make_config(seed: int | None = None, *, flat: bool = False) -> PPOConfig:
    """Return the settings of both levels, or of one agent in the maze."""
    config = (
        PPOConfig()
        .env_runners(num_env_runners=0, num_envs=8, rollout_fragment_length=250)
        .training(train_batch_size=2000, minibatch_size=250, num_epochs=8, lr=1e-3, entropy_coeff=0.01)
        .training(gamma=0.99, model={"fcnet_hiddens": [32]})
        .debugging(seed=seed)
    )
    if flat:
        return config.environment(WindyMazeEnv)
    env = HierarchicalWindyMazeEnv()
    policies = {
        UPPER: (None, env.high_space, env.goals, {"gamma": 0.9, "entropy_coeff": 0.05}),
        LOWER: (None, env.low_space, env.moves, {"gamma": 0.0}),
    }
    return config.environment(HierarchicalWindyMazeEnv).multi_agent(policies=policies, policy_mapping_fn=policy_of)


def main(argv: Sequence[str] | None = None) -> float:
    """Train, and return the mean return at the end."""
    words = list(sys.argv[1:] if argv is None else argv)
    flat = "--flat" in words
    arguments = arguments_of([word for word in words if word != "--flat"], __doc__, reward=0.0, iterations=100)
    return trained(make_config(arguments.seed, flat=flat), arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
