"""Deep Q-learning as it began (Mnih et al., 2015, nature14236): a target network and replayed experience."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kernel_rllib.algorithms.off_policy import (
    exploration_by_values,
    refuse_what_is_missing,
    require_discrete,
)
from kernel_rllib.algorithms.replaying import TD_ERRORS, ReplayingAlgorithm
from kernel_rllib.arrays import Array
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.off_policy import OffPolicyArguments, OffPolicyConfig
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.exploration import Exploration, NoExploration
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.modules.catalog import activation_name, convolution_options
from kernel_rllib.modules.contracts import QModule
from kernel_rllib.modules.custom import CustomModel
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.modules.q_network import QNetwork, QNetworkOptions
from kernel_rllib.nn.ops import Ops
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.training.exploring_for_reward import REWARDS
from kernel_rllib.training.honoured import HEADS, IMAGES, ONE_HEAD, ONE_PASS, OWN_MODELS
from kernel_rllib.training.models import refuse_dense_layers_for_images

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

TdErrorLoss = Literal["huber", "mse"]


class SimpleQConfig(OffPolicyConfig):
    """The settings of SimpleQ."""

    algorithm = "SimpleQ"

    defaults = values(
        lr=5e-4,
        grad_clip=40.0,
        train_batch_size=32,
        rollout_fragment_length=4,
        exploration_config=values(
            type="EpsilonGreedy", initial_epsilon=1.0, final_epsilon=0.02, epsilon_timesteps=10_000
        ),
        evaluation_config=values(explore=False),
        replay_buffer_config=values(capacity=50_000),
        compress_observations=Default(False, older={"0.8.5": True}),
    )
    in_all_dicts: ClassVar[tuple[str, ...]] = ("grad_clip",)
    more_in_0_8_5 = values(lr_schedule=None)
    less_in_0_8_5 = (
        "n_step",
        "tau",
        "prioritized_replay",
        "prioritized_replay_alpha",
        "prioritized_replay_beta",
        "prioritized_replay_eps",
        "final_prioritized_replay_beta",
        "prioritized_replay_beta_annealing_timesteps",
        "worker_side_prioritization",
    )

    adam_epsilon = Field(1e-8, "What Adam adds to the root of its second moment.", above=0)
    td_error_loss_fn = Field[TdErrorLoss]("huber", "The loss of temporal differences.", since="1.x")
    epsilon = Field[float | Schedule | None](
        None,
        "How often actions are random, or its schedule over env steps; None: as exploration_config says.",
        range=(0, 1),
        since="current",
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        adam_epsilon: float = NOT_PROVIDED,
        td_error_loss_fn: TdErrorLoss = NOT_PROVIDED,
        epsilon: float | Schedule | None = NOT_PROVIDED,
        **common: Unpack[OffPolicyArguments],
    ) -> Self:
        """Set how SimpleQ learns; return this config."""
        return self

    @property
    def exploration_settings(self) -> dict[str, Any]:
        """The exploration of actions: `exploration_config`, or epsilon-greedy by the schedule of `epsilon`."""
        if self.epsilon is None or (self.is_set("exploration_config") and not self.is_set("epsilon")):
            return self.choice_of_actions
        return {"type": "EpsilonGreedy", "epsilon": self.epsilon}

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        if self.epsilon is not None and self.is_set("epsilon") and self.is_set("exploration_config"):
            yield f"epsilon={self.epsilon} and exploration_config={self.exploration_config} disagree; give one of them"


class SimpleQ(ReplayingAlgorithm):
    """Learns the values of actions from replayed steps, against a copy of the network that stands still for a while."""

    config: SimpleQConfig
    config_class = SimpleQConfig
    intrinsic_rewards = frozenset({REWARDS})
    action_kinds = ("discrete",)
    perturbs_parameters: ClassVar[bool] = True
    """Whether runners may act by perturbed parameters."""
    acts_on = HEADS | IMAGES | OWN_MODELS
    network_class: ClassVar[type[QNetwork]] = QNetwork
    without: ClassVar[Mapping[str, str]] = {**ONE_PASS, **ONE_HEAD, "model/free_log_std": "its actions are discrete"}

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> QNetwork:
        """Return a network with a value for each action.

        Raises:
            ConfigError: If actions are not those of a Discrete space, or options of the model don't fit observations.
        """
        require_discrete(self.spaces, self.config.title)
        refuse_dense_layers_for_images(self.config, observation)
        return self.network_class(observation, distribution.parameter_size, self.network_options())

    def make_custom_module(self, custom: CustomModel) -> QModule:
        """Return a model of the user's own, which gives a value for each action.

        Raises:
            ConfigError: If actions are not those of a Discrete space, or settings ask for heads that it does not have.
        """
        require_discrete(self.spaces, self.config.title)
        for name in ("noisy", "num_atoms"):
            if name in type(self.config).fields and not self.config.is_default(name):
                raise ConfigError(
                    f"{self.config.title}: {name}={getattr(self.config, name)} is of the usual network, and a model of "
                    "your own gives a value for each action itself; leave it at its default"
                )
        return custom.q_module()

    def network_options(self) -> QNetworkOptions:
        """Return how the network is built."""
        model = self.config.model
        return QNetworkOptions(
            hidden=tuple(model.fcnet_hiddens),
            heads=tuple(model.head_fcnet_hiddens),
            activation=activation_name(model.fcnet_activation),
            head_activation=activation_name(model.head_fcnet_activation),
            dueling=False,
            convolutions=convolution_options(model),
        )

    def make_exploration(self) -> Exploration:
        """Return epsilon-greedy choices, unless the settings say otherwise."""
        exploration = exploration_by_values(
            self.config.exploration_settings, self.distribution.parameter_size, perturbs=self.perturbs_parameters
        )
        return exploration if self.config.explore else NoExploration(exploration)

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the error of values against their targets."""
        objective = self.objective(self.make_loss())
        objective.optimizer_settings = {"epsilon": self.config.adam_epsilon, **objective.optimizer_settings}
        return {"q": objective}

    def make_loss(self) -> Loss:
        """Return what the network makes small."""
        return q_loss(self.config)

    def setup(self, config: dict[str, Any]) -> None:
        """Refuse what there is not, and make what learning from replay needs.

        Raises:
            ConfigError: If a setting asks for what this algorithm does not have.
        """
        self.refuse_what_is_missing()
        super().setup(config)

    def refuse_what_is_missing(self) -> None:
        """Raise ConfigError if a setting asks for what this algorithm does not have."""
        refuse_what_is_missing(self._settings, perturbs=self.perturbs_parameters)

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
        """Return r + discount * max Q(next): equation 2 of the paper, by the network that stands still."""
        inputs, module = {columns.OBS: batch[columns.NEXT_OBS]}, self.learner.module
        outputs = self.learner.evaluate(lambda nn, p: module.train(nn, p, inputs), self.target.vector)
        targets: Array = batch[columns.REWARDS] + batch[DISCOUNTS] * outputs[columns.Q_VALUES].max(axis=1)
        return targets


def q_loss(config: SimpleQConfig, noise: Callable[[], Array | None] = lambda: None) -> Loss:
    """Return the loss of values against `value_targets`: Huber's, or the square; weighed by `weights`.

    L = mean( w l(Q(s, a) - y) ), of which the gradient is that of algorithm 1 of the paper, with its clipped errors.

    Args:
        config: Says which of the two it is (`td_error_loss_fn`).
        noise: Gives the noise of the network, [1, width]; None for none.
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        inputs = {columns.OBS: batch[columns.OBS], columns.NOISE: noise()}
        values = module.train(nn, parameters, inputs)[columns.Q_VALUES]
        chosen = nn.take_along(values, batch[columns.ACTIONS][:, None], axis=1)[:, 0]
        errors = chosen - nn.constant(batch[columns.VALUE_TARGETS])
        costs = nn.huber(errors) if config.td_error_loss_fn == "huber" else 0.5 * nn.square(errors)
        total = nn.mean(costs * nn.constant(batch[columns.WEIGHTS]))
        return total, {"total_loss": total, TD_ERRORS: errors, **statistics(nn, chosen)}

    return loss


def statistics(nn: Ops, chosen: Any) -> Metrics:
    """Return what is reported of the values of actions taken [N]."""
    values = nn.stop_gradient(chosen)
    return {"mean_q": nn.mean(values), "min_q": nn.min(values), "max_q": nn.max(values)}
