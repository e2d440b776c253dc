"""PPO and DQN for different policies of one environment: two trainers that take turns.

    python -m kernel_rllib.examples.multi_agent_two_trainers

Each trainer learns one policy. The other policy is in it too, as an object that acts by what the other trainer has
written down last: `export_checkpoint` writes a policy, and `Policy.from_checkpoint` reads it, in every worker. Four
agents balance a cart-pole each, two for each policy.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs.multi_agent import make_multi_agent
from kernel_rllib.examples.running import arguments_of
from kernel_rllib.first_generation.policy import Policy

PPO_POLICY, DQN_POLICY = "ppo_policy", "dqn_policy"


class PolicyOfTheOther(Policy):
    """Acts as the policy of another trainer did when it was written down; before that, at random."""

    def __init__(self, observation_space: Any, action_space: Any, config: Any) -> None:
        """Begin without a policy."""
        super().__init__(observation_space, action_space, config)
        self.stream = np.random.default_rng(0)
        self._acting: Any = None
        self._actions: int = action_space.n

    def load(self, path: str) -> None:
        """Act as the policy in a directory from now on."""
        self._acting = Policy.from_checkpoint(path)

    def compute_actions(self, obs_batch: Any, state_batches: Any = None, *more: Any, **named: Any) -> Any:
        """Return the best known actions [N], nothing to remember, and no further columns."""
        if self._acting is None:
            return self.stream.integers(0, self._actions, len(obs_batch)), [], {}
        return self._acting.compute_actions(obs_batch, explore=False)[0], [], {}


def policy_of(agent_id: int, *more: object, **named: object) -> str:
    """Return the policy of an agent: those with even numbers have that of PPO."""
    return DQN_POLICY if agent_id % 2 else PPO_POLICY


def make_config(config: Any, own: str, other: str, seed: int | None = None) -> Any:
    """Return the settings of one trainer: it learns its own policy, beside that of the other."""
    env = make_multi_agent("CartPole-v1")
    policies: dict[str, Any] = {own: (None, None, None, {}), other: (PolicyOfTheOther, None, None, {})}
    return (
        config.environment(env, env_config={"num_agents": 4})
        .env_runners(num_env_runners=0)
        .multi_agent(policies=policies, policy_mapping_fn=policy_of, policies_to_train=[own])
        .training(gamma=0.95, model={"fcnet_hiddens": [64]})
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=500)
        .debugging(seed=seed)
    )


def tell(learner: Any, own: str, other: Any) -> None:
    """Write the policy of one trainer down, and let the workers of the other act by it."""
    with tempfile.TemporaryDirectory() as directory:
        learner.get_policy(own).export_checkpoint(directory)
        other.workers.foreach_worker(lambda worker: worker.get_policy(own).load(directory))


def main(argv: Sequence[str] | None = None) -> float:
    """Train both in turn, and return the lower of both mean returns, of the agents that each one trains."""
    arguments = arguments_of(argv, __doc__, reward=100.0, iterations=40)
    ppo = PPOConfig().training(train_batch_size=500, minibatch_size=125, num_epochs=8, lr=1e-3)
    dqn = DQNConfig().training(lr=1e-3, num_steps_sampled_before_learning_starts=500, target_network_update_freq=200)
    dqn = dqn.training(epsilon=[[0, 1.0], [5_000, 0.05]], training_intensity=16)
    first = make_config(ppo, PPO_POLICY, DQN_POLICY, arguments.seed).build()
    second = make_config(dqn, DQN_POLICY, PPO_POLICY, arguments.seed).build()
    reached = float("-inf")
    try:
        for iteration in range(arguments.stop_iters):
            means = [first.train()["policy_reward_mean"][PPO_POLICY], second.train()["policy_reward_mean"][DQN_POLICY]]
            reached = min(means)
            sys.stdout.write(f"{iteration + 1}: PPO {means[0]:.1f}, DQN {means[1]:.1f}\n")
            if reached >= arguments.stop_reward:
                break
            tell(first, PPO_POLICY, second)
            tell(second, DQN_POLICY, first)
    finally:
        first.stop()
        second.stop()
    if arguments.as_test and reached < arguments.stop_reward:
        raise RuntimeError(f"the lower mean return is {reached:.2f}, and should have become {arguments.stop_reward}")
    return reached


if __name__ == "__main__":
    main(sys.argv[1:])
