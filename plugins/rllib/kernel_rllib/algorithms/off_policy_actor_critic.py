"""The base of SAC, TQC, CQL, CRR, IQL, DDPG and TD3: a policy, critics that learn from replay, and target networks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium import Space

from kernel_rllib.algorithms.exploration_by_noise import exploration_of_policy
from kernel_rllib.algorithms.replaying import TD_ERRORS, ReplayingAlgorithm
from kernel_rllib.arrays import Array
from kernel_rllib.config.off_policy import OffPolicyConfig
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.catalog import BoxChoice, for_space
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import SpaceError
from kernel_rllib.exploration.exploration import Exploration, NoExploration
from kernel_rllib.learners.learner import Loss, Metrics
from kernel_rllib.modules.actor_q_critics import ActorQCritics, ActorQCriticsOptions
from kernel_rllib.modules.module import Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.spaces.action_rows import row_bounds, row_space
from kernel_rllib.spaces.squash import normalised_space
from kernel_rllib.training.exploring_for_reward import REWARDS
from kernel_rllib.training.honoured import IMAGES, ONE_HEAD, ONE_PASS
from kernel_rllib.training.models import refuse_dense_layers_for_images


def refused_settings(config: OffPolicyConfig) -> Iterator[str]:
    """Yield what none of these algorithms can do."""
    given = config.is_set("lr") and config.lr is not None and config.generation == "current"
    if given or not config.is_default("lr"):
        rates = ", ".join(name for name in ("actor_lr", "critic_lr", "alpha_lr") if hasattr(config, name))
        yield f"lr={config.lr} has no effect on {config.algorithm}, each network of which has a rate; set {rates}"


class OffPolicyActorCritic(ReplayingAlgorithm):
    """Keeps what it samples, and lets critics, and then the policy, make a step with each minibatch of it.

    Continuous actions are learned between -1 and 1, unless `normalize_actions` is off: replay has them so, and the
    runner stretches them to the bounds of the environment.
    """

    config: OffPolicyConfig
    intrinsic_rewards = frozenset({REWARDS})
    perturbs_parameters: ClassVar[bool] = False
    """Whether runners may act by perturbed parameters."""
    acts_on = IMAGES
    without: ClassVar[Mapping[str, str]] = {
        **ONE_PASS,
        **ONE_HEAD,
        "model/free_log_std": "its policy gives each deviation that it needs",
    }
    box: ClassVar[BoxChoice]
    """The distribution of continuous actions."""
    takes_discrete: ClassVar[bool] = False

    @abstractmethod
    def module_options(self) -> ActorQCriticsOptions:
        """Return how the networks are built."""

    @abstractmethod
    def improve_policy(self, batch: Batch) -> Metrics:
        """Let the policy make a step."""

    @property
    def policy_delay(self) -> int:
        """The number of updates of the critics for each update of the policy and of the target networks."""
        return 1

    def make_distribution(self, action_space: Space[Any]) -> Distribution:
        """Return the distribution of actions as they are learned.

        Raises:
            SpaceError: If the algorithm can't learn actions of such a space.
        """
        learned = row_space(action_space)
        if self.config.normalize_actions:
            learned = normalised_space(learned)
        distribution = for_space(learned, box=self.box)
        if not distribution.reparameterised and not (self.takes_discrete and hasattr(learned, "n")):
            also = "Discrete, " if self.takes_discrete else ""
            raise SpaceError(
                f"{type(self).__name__} can't learn actions of {action_space}: {also}a Box of floats, or a Tuple or "
                "Dict of such, was expected. Take another algorithm, such as PPO, or wrap the environment"
            )
        self.bounds = row_bounds(learned) if distribution.reparameterised else None
        return distribution

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> ActorQCritics:
        """Return a policy and critics."""
        continuous = self.bounds is not None
        if len(observation) != 3:
            refuse_dense_layers_for_images(self.config, observation)
        return ActorQCritics(
            observation,
            distribution.parameter_size,
            action_inputs=distribution.action_size if continuous else 0,
            critic_outputs=1 if continuous else distribution.parameter_size,
            options=self.module_options(),
        )

    def make_exploration(self) -> Exploration:
        """Return the exploration that the settings describe."""
        exploration = exploration_of_policy(
            self.config.choice_of_actions, self.distribution, self.bounds, perturbs=self.perturbs_parameters
        )
        return exploration if self.config.explore else NoExploration(exploration)

    def setup_learning(self) -> None:
        """Count the steps of critics, beside what learning from replay needs."""
        super().setup_learning()
        self.module: Any = self.learner.module
        self.updates = 0
        self.policy_metrics: Metrics = {}

    def learn_once(self) -> Metrics:
        """Let critics make a step towards the targets of a minibatch, and then, when it is time, policy and copy."""
        batch = self.draw()
        self.prepare(batch)
        metrics = self.update(batch, ("critic",))
        errors = metrics.pop(TD_ERRORS)
        self.replay.update_priorities(batch[columns.BATCH_INDEXES], errors)
        self.updates += 1
        if self.updates % self.policy_delay == 0:
            self.policy_metrics = self.improve_policy(batch)
            self.follow()
        return {**metrics, "mean_td_error": float(errors.mean()), **self.policy_metrics}

    def normals(self, count: int) -> Array:
        """Return normal numbers for as many draws of actions: float32 [count, width]."""
        return self.draws.standard_normal((count, self.distribution.action_size), np.float32)

    def drawn_actions(self, obs: Array, number: int, vector: Any = None) -> tuple[Array, Array]:
        """Return actions [N, number, D] that the policy draws at observations, and their log-densities [N, number].

        Args:
            obs: The observations [N, ...].
            number: The number of actions that are drawn for each observation.
            vector: The parameters [size]; None for those of now.
        """
        count = len(obs)
        noise, places = self.normals(count * number), np.arange(count).repeat(number)

        def drawn(nn: Ops, parameters: Parameters) -> tuple[Any, Any]:
            inputs = self.module.train(nn, parameters, {columns.OBS: obs})[columns.ACTION_DIST_INPUTS]
            return self.distribution.sample_and_log_prob(nn, nn.rows(inputs, nn.constant(places)), nn.constant(noise))

        actions, log_probs = self.learner.evaluate(drawn, vector)
        return actions.reshape(count, number, -1), log_probs.reshape(count, number)

    def own_state(self) -> dict[str, Any]:
        """Return how many steps critics have made, beside what learning from replay keeps."""
        return {**super().own_state(), "updates": self.updates}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        super().set_own_state(state)
        self.updates = int(state["updates"])


def discounted(batch: Batch, next_values: Array) -> Array:
    """Return the rewards of transitions plus what the values [N] of the observations after them are worth."""
    targets: Array = batch[columns.REWARDS] + batch[DISCOUNTS] * next_values
    return targets


def critic_loss(cost: Callable[[Ops, Any], Any]) -> Loss:
    """Return the loss of critics: the sum over them of the mean cost of Q(s, a) - `value_targets`, by `weights`.

    Args:
        cost: Returns what errors [N] cost, such as their squares.
    """

    def loss(nn: Ops, module: Any, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        actions = batch[columns.ACTIONS]
        values = module.q_values(nn, parameters, batch[columns.OBS], actions)
        if values[0].ndim == 2:
            values = values_of_taken(nn, values, actions)
        return errors_loss(nn, values, batch, cost)

    return loss


def values_of_taken(nn: Ops, values: Sequence[Any], actions: Array) -> list[Any]:
    """Return of each critic's values of all actions [N, A] those of the actions that were taken [N]."""
    index = nn.constant(actions[:, None])
    return [nn.take_along(value, index, axis=1)[:, 0] for value in values]


def errors_loss(nn: Ops, values: Sequence[Any], batch: Batch, cost: Callable[[Ops, Any], Any]) -> tuple[Any, Metrics]:
    """Return the sum over critics of the mean cost of their errors, by `weights`, and what is reported of it.

    Args:
        nn: The operations.
        values: Each critic's values [N] of the actions that were taken.
        batch: Has `value_targets` and `weights`.
        cost: Returns what errors [N] cost, such as their squares.
    """
    targets = nn.constant(batch[columns.VALUE_TARGETS])
    errors = [value - targets for value in values]
    weights = nn.constant(batch[columns.WEIGHTS])
    total, *others = (nn.mean(cost(nn, error) * weights) for error in errors)
    for other in others:
        total = total + other
    found = [nn.to_numpy(error) for error in errors]
    first = nn.to_numpy(values[0])
    return total, {
        "critic_loss": total,
        "mean_q": first.mean(),
        "min_q": first.min(),
        "max_q": first.max(),
        TD_ERRORS: sum(abs(error) for error in found) / len(found),
    }
