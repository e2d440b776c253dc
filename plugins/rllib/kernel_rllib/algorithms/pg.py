"""Vanilla policy gradient: REINFORCE (Williams, 1992, Machine Learning 8, 229-256)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernel_rllib.algorithms.advantages import estimate_advantages
from kernel_rllib.algorithms.on_policy import actor_critic, experience, mean_over, whole
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.validate import fragment_problem
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.exploring_for_reward import REWARDS
from kernel_rllib.training.honoured import ACTOR_CRITIC, ONE_PASS, PIPELINED

READ = (columns.OBS, columns.ACTIONS, columns.ADVANTAGES)
"""The columns of a batch that the loss reads. Advantages are returns here: no value is subtracted from them."""


class PGConfig(AlgorithmConfig):
    """The settings of PG.

    Whole episodes are sampled, as the paper has it. With `batch_mode="truncate_episodes"`, which dicts of older
    generations have by default, the return of an episode that a fragment cuts has nothing of what comes later.
    """

    algorithm = "PG"

    defaults = values(
        lr=0.0004,
        num_env_runners=0,
        train_batch_size=200,
        rollout_fragment_length=Default("auto", older={"1.x": 200}),
        batch_mode=Default("complete_episodes", older={"2.x": "truncate_episodes"}),
        use_exec_api=Default(False, older={"0.8.5": True}),
        _disable_preprocessor_api=Default(True, older={"0.8.5": False}),
    )

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        yield from filter(None, [fragment_problem(self)])


class PG(Algorithm):
    """Trains by one update for each batch of episodes, which makes actions likelier by the rewards after them."""

    config: PGConfig
    config_class = PGConfig
    intrinsic_rewards = frozenset({REWARDS})
    acts_on = ACTOR_CRITIC | PIPELINED
    without = ONE_PASS

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return a policy; the value beside it is not asked for."""
        return actor_critic(self.config, observation, distribution)

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return REINFORCE."""
        return {"pg": self.objective(policy_gradient_loss(self.distribution))}

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Sum up rewards to the ends of episodes, and make one step."""
        return self.update(self.experience(fragments))

    def experience(self, fragments: Sequence[Fragment]) -> Batch:
        """Return all steps with their returns."""
        for fragment in fragments:
            estimate_advantages(self.learner, fragment, gamma=self.config.gamma, use_gae=False, use_critic=False)
        return whole(experience(self.learner.module, fragments, READ, self.config.model.max_seq_len))


def policy_gradient_loss(distribution: Distribution) -> Loss:
    """Return the loss of REINFORCE.

    L = mean( -log pi(a|s) G ), where G is the discounted sum of the rewards from that step on. Its gradient, with the
    sign turned, is the characteristic eligibility times the reinforcement of theorem 1, with a baseline of 0.

    Args:
        distribution: The policy's.
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
        mean = mean_over(nn, batch)
        inputs = module.explore(nn, parameters, batch)[columns.ACTION_DIST_INPUTS]
        advantages = nn.constant(batch[columns.ADVANTAGES])
        policy_loss = -mean(distribution.log_prob(nn, inputs, nn.constant(batch[columns.ACTIONS])) * advantages)
        return policy_loss, {
            "policy_loss": policy_loss,
            "entropy": mean(distribution.entropy(nn, nn.stop_gradient(inputs))),
        }

    return loss
