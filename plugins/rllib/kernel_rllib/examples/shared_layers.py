"""PPO for several agents with a policy each, whose first layers are the same ones.

    python -m kernel_rllib.examples.shared_layers

The parameters below `shared` are those of both policies: each learns them in its turn, from where the other one left
them, with what its own optimizer remembers of them. Heads are their own. The agents balance a cart-pole each.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.envs.multi_agent import make_multi_agent
from kernel_rllib.examples.running import arguments_of, trained
from kernel_rllib.learners.learner import Metrics
from kernel_rllib.learners.shared_parameters import SharedParameters

POLICIES = ("policy_0", "policy_1")


class SharedLayersPPO(PPO):
    """PPO for policies whose modules have the layers `shared`."""

    def setup(self, config: dict[str, Any]) -> None:
        """Build it, and let all policies begin with the same layers."""
        super().setup(config)
        SharedParameters(self.learners, ("shared",)).give_to_all()
        self.broadcast()

    def learn_policies(self, chosen: Sequence[str], fragments: Mapping[str, Sequence[Fragment]]) -> dict[str, Metrics]:
        """Let policies learn one after the other, and have the same layers when they are done."""
        shared = SharedParameters(self.learners, ("shared",))
        told: dict[str, Metrics] = {}
        for policy_id in chosen:
            shared.give_to(policy_id)
            told |= super().learn_policies([policy_id], fragments)
            shared.take_from(policy_id)
        shared.give_to_all()
        return told


def policy_of(agent_id: int, *more: object, **named: object) -> str:
    """Return the policy of an agent: two agents to each."""
    return POLICIES[agent_id % 2]


def make_config(seed: int | None = None) -> PPOConfig:
    """Return the settings: policy and value have common layers, which are called `shared`."""
    return (
        PPOConfig(algo_class=SharedLayersPPO)
        .environment(make_multi_agent("CartPole-v1"), env_config={"num_agents": 4})
        .env_runners(num_env_runners=0, num_envs=2, rollout_fragment_length=128)
        .multi_agent(policies=list(POLICIES), policy_mapping_fn=policy_of)
        .training(train_batch_size=256, minibatch_size=128, num_epochs=6, lr=1e-3, gamma=0.98, lambda_=0.9)
        .training(vf_loss_coeff=0.01, model={"fcnet_hiddens": [64], "vf_share_layers": True})
        .debugging(seed=seed)
    )


def main(argv: Sequence[str] | None = None) -> float:
    """Train, and return the mean return at the end, of all four agents together."""
    arguments = arguments_of(argv, __doc__, reward=600.0, iterations=200)
    return trained(make_config(arguments.seed), arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
