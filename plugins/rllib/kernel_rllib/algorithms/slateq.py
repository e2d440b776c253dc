"""SlateQ (Ie et al. 2019, arXiv:1905.12767): Q-learning over slates of documents, of which a user consumes one or none.

The value of a slate is the mean of the values of its documents, weighed by how likely each is consumed (equation 14).
So values of documents are learned, of which there are few, and not those of slates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kernel_rllib.algorithms.off_policy import EPSILON_OPTIONS, epsilon_of
from kernel_rllib.algorithms.replaying import TD_ERRORS, ReplayingAlgorithm
from kernel_rllib.arrays import Array
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import values
from kernel_rllib.config.off_policy import OffPolicyArguments, OffPolicyConfig
from kernel_rllib.config.replay_config import PRIORITIZED
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError, ModuleError
from kernel_rllib.exploration.exploration import Exploration
from kernel_rllib.exploration.slates import SlateEpsilonGreedy, best_slates
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.modules.catalog import activation_name
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.modules.slate_network import CHOICE, CHOICE_LOGITS, VALUE, SlateLayout, SlateNetwork
from kernel_rllib.nn.ops import Ops
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.training.exploration_of_users import exploration_name, own_exploration
from kernel_rllib.training.honoured import ONE_HEAD, ONE_PASS

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

CLICKED = "clicked"
"""The column of what was consumed: the place in the slate, or its size for none."""


class SlateQConfig(OffPolicyConfig):
    """The settings of SlateQ."""

    algorithm = "SlateQ"

    defaults = values(
        lr=0.00025,
        grad_clip=40.0,
        train_batch_size=32,
        rollout_fragment_length=4,
        min_time_s_per_iteration=1,
        min_sample_timesteps_per_iteration=1000,
        num_steps_sampled_before_learning_starts=20_000,
        target_network_update_freq=3200,
        exploration_config=values(
            type="SlateEpsilonGreedy",
            initial_epsilon=1.0,
            final_epsilon=0.01,
            warmup_timesteps=20_000,
            epsilon_timesteps=250_000,
        ),
        evaluation_config=values(explore=False),
        replay_buffer_config=values(type=PRIORITIZED, capacity=100_000, alpha=0.6, beta=0.4, final_beta=0.4),
    )

    fcnet_hiddens_per_candidate = Field[list[int]](
        [256, 32], "Sizes of the dense layers that see a user beside one document.", range=(1, None), since="1.x"
    )
    use_huber = Field(False, "Whether errors of values are Huber's, not squared.", since="1.x")
    huber_threshold = Field(1.0, "Where Huber's error becomes linear.", above=0, since="1.x")
    adam_epsilon = Field(1e-8, "What Adam adds to the root of its second moment.", above=0, since="1.x")

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        fcnet_hiddens_per_candidate: list[int] = NOT_PROVIDED,
        use_huber: bool = NOT_PROVIDED,
        huber_threshold: float = NOT_PROVIDED,
        adam_epsilon: float = NOT_PROVIDED,
        **common: Unpack[OffPolicyArguments],
    ) -> Self:
        """Set how SlateQ learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        if self.n_step != 1:
            yield f"n_step={self.n_step}: what was consumed is told one step later, so n_step has to be 1"


class SlateQ(ReplayingAlgorithm):
    """Learns what each document is worth in the long run, and which ones users consume; shows the best slates."""

    config: SlateQConfig
    config_class = SlateQConfig
    action_kinds = ("slates",)
    without: ClassVar[Mapping[str, str]] = {
        **ONE_PASS,
        **ONE_HEAD,
        "model/fcnet_hiddens": "give the layers to fcnet_hiddens_per_candidate",
        "model/free_log_std": "its actions are discrete",
    }

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return the networks. Raises ConfigError if actions are no slates, or observations tell nothing of them."""
        try:
            layout = SlateLayout.of(self.spaces.observation, self.spaces.action)
        except ModuleError as error:
            raise ConfigError(f"{self.config.title}: {error}") from error
        hidden, activation = self.config.fcnet_hiddens_per_candidate, self.config.model.fcnet_activation
        usual = self.config.model.is_default("fcnet_activation")
        return SlateNetwork(layout, tuple(hidden), "relu" if usual else activation_name(activation))

    def make_exploration(self) -> Exploration:
        """Return that slates are the best ones, and now and then any. Raises ConfigError for another exploration."""
        settings, layout = self.config.exploration_config, self._layout
        own = own_exploration(settings, documents=layout.documents, size=layout.size)
        if own is not None:
            return own
        name = exploration_name(settings, "SlateEpsilonGreedy")
        unknown = sorted(set(settings) - {"type", *EPSILON_OPTIONS})
        if name not in ("SlateEpsilonGreedy", "EpsilonGreedy") or unknown:
            raise ConfigError(
                f"exploration_config is {dict(settings)}, and slates are explored by the type 'SlateEpsilonGreedy' "
                f"with {', '.join(EPSILON_OPTIONS)}, or by a class of your own"
            )
        return SlateEpsilonGreedy(layout.documents, layout.size, epsilon_of(settings))

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the error of values, and how unlikely the choices of users were."""
        losses = {VALUE: self.make_loss(), CHOICE: choice_loss()}
        found = {name: self.objective(loss, trainable=(name,)) for name, loss in losses.items()}
        for objective in found.values():
            objective.optimizer_settings = {"epsilon": self.config.adam_epsilon, **objective.optimizer_settings}
        return found

    def make_loss(self) -> Loss:
        """Return the error of values of what was consumed."""
        return value_loss(self.config.huber_threshold if self.config.use_huber else None)

    def learn_once(self) -> Metrics:
        """Draw a minibatch, step towards its targets, and let the target network follow when it is time."""
        batch = self.draw()
        batch[columns.VALUE_TARGETS] = self.targets_of(batch)
        metrics = self.update(batch)
        errors = metrics.pop(TD_ERRORS)
        self.replay.update_priorities(batch[columns.BATCH_INDEXES], errors)
        self.follow()
        return {**metrics, "mean_td_error": float(errors.mean())}

    def targets_of(self, batch: Batch) -> Array:
        """Return r + discount * max_A sum_{j in A} P(j | next, A) Q'(next, j) (equation 17); note what was consumed.

        Q' and P are those of the networks that stand still.
        """
        following, module = batch[columns.NEXT_OBS], self.learner.module
        batch[CLICKED] = self._layout.clicked(following)
        inputs = {columns.OBS: following}
        outputs = self.learner.evaluate(lambda nn, p: module.train(nn, p, inputs), self.target.vector)
        _, best = best_slates(outputs[columns.Q_VALUES], outputs[CHOICE_LOGITS], self._layout.size)
        targets: Array = (batch[columns.REWARDS] + batch[DISCOUNTS] * best).astype(np.float32)
        return targets

    @property
    def _layout(self) -> SlateLayout:
        module = self.learner.module
        assert isinstance(module, SlateNetwork)
        return module.layout


def value_loss(huber_threshold: float | None) -> Loss:
    """Return the loss of the values of what was consumed against `value_targets`, weighed by `weights`.

    Args:
        huber_threshold: The error from which on Huber's loss is linear; None for the squared loss.
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        outputs = module.train(nn, parameters, {columns.OBS: batch[columns.OBS]})
        consumed = shown(batch, outputs[columns.Q_VALUES].shape[1] - 1)
        consumed = np.take_along_axis(consumed, batch[CLICKED][:, None], axis=1)
        chosen = nn.take_along(outputs[columns.Q_VALUES], consumed, axis=1)[:, 0]
        errors = chosen - nn.constant(batch[columns.VALUE_TARGETS])
        costs = 0.5 * nn.square(errors) if huber_threshold is None else nn.huber(errors, huber_threshold)
        total = nn.mean(costs * nn.constant(batch[columns.WEIGHTS]))
        means = nn.stop_gradient(chosen)
        return total, {"total_loss": total, TD_ERRORS: errors, "mean_q": nn.mean(means)}

    return loss


def choice_loss() -> Loss:
    """Return how unlikely it was that users consumed what they did, of what was shown (equation 5): its logarithm."""

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        logits = module.train(nn, parameters, {columns.OBS: batch[columns.OBS]})[CHOICE_LOGITS]
        seen = nn.take_along(logits, shown(batch, logits.shape[1] - 1), axis=1)
        total = -nn.mean(nn.log_softmax_at(seen, batch[CLICKED]) * nn.constant(batch[columns.WEIGHTS]))
        return total, {"choice_loss": total}

    return loss


def shown(batch: Batch, none: int) -> Array:
    """Return the documents of slates, and the number of none beside them [N, size + 1]."""
    slates = np.asarray(batch[columns.ACTIONS], np.int64)
    found: Array = np.concatenate([slates, np.full((len(slates), 1), none)], axis=1)
    return found
