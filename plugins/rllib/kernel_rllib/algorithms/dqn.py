"""DQN and the parts of Rainbow (Hessel et al. 2017, arXiv:1710.02298): double, dueling, n-step, noisy, C51 and more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kernel_rllib.algorithms.off_policy import exploration_by_values
from kernel_rllib.algorithms.replaying import TD_ERRORS
from kernel_rllib.algorithms.simple_q import SimpleQ, SimpleQConfig, TdErrorLoss, q_loss, statistics
from kernel_rllib.arrays import Array
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.off_policy import OffPolicyArguments
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.config.replay_config import PRIORITIZED
from kernel_rllib.config.sentinels import DEPRECATED_VALUE, NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.exploration.exploration import Exploration, NoExploration
from kernel_rllib.learners.learner import Loss, Metrics
from kernel_rllib.modules.contracts import QModule
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.modules.q_network import Q_LOGITS, QNetwork, QNetworkOptions
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.ops import Ops
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.returns.categorical_projection import project_categorical

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

ONLINE, TARGET, CHOICE = range(3)
"""The uses of noise: the loss, the target network, and the online network where it chooses actions for targets."""
_UNTOUCHED = (
    "schedule_max_timesteps",
    "exploration_final_eps",
    "exploration_fraction",
    "beta_annealing_fraction",
    "per_worker_exploration",
    "softmax_temp",
    "soft_q",
    "parameter_noise",
    "grad_norm_clipping",
)


class DQNConfig(SimpleQConfig):
    """The settings of DQN. Rainbow is `n_step` from 2 to 5, `noisy=True`, `num_atoms=51`, and the rest as it is."""

    algorithm = "DQN"

    defaults = values(
        rollout_fragment_length=Default("auto", older={"1.x": 4}),
        epsilon=Default([[0, 1.0], [10_000, 0.05]], older={"2.x": None}),
        replay_buffer_config=values(type=PRIORITIZED, capacity=50_000, alpha=0.6, beta=0.4, final_beta=0.4),
        compress_observations=False,
        use_exec_api=Default(False, older={"0.8.5": True}),
    )
    in_all_dicts: ClassVar[tuple[str, ...]] = (
        "n_step",
        "prioritized_replay",
        "prioritized_replay_alpha",
        "prioritized_replay_beta",
        "prioritized_replay_eps",
        "final_prioritized_replay_beta",
        "prioritized_replay_beta_annealing_timesteps",
        "worker_side_prioritization",
    )
    more_in_0_8_5 = values(**dict.fromkeys(_UNTOUCHED, DEPRECATED_VALUE))

    double_q = Field(True, "Whether the online network chooses the action that the target network values.")
    dueling = Field(True, "Whether values of states and advantages of actions are separate branches.")
    hiddens = Field[list[int]]([256], "Sizes of the dense layers of each branch.", range=(1, None))
    noisy = Field(False, "Whether noise in the weights explores.")
    sigma0 = Field(0.5, "How much noise there is at first.", range=(0, None))
    num_atoms = Field(
        1, "How many atoms the distribution of returns has; 1: only its mean is learned.", range=(1, None)
    )
    v_min = Field(-10.0, "The lowest return that the atoms reach.")
    v_max = Field(10.0, "The highest return that the atoms reach.")
    categorical_distribution_temperature = Field(1.0, "The temperature of sampling by values.", above=0, since="1.x")
    burn_in_len = Field(
        0, "Steps at a sequence's start that only warm up recurrent states.", range=(0, None), unit="env steps",
        since="current",
    )  # fmt: skip
    before_learn_on_batch = Field[Callable[..., Any] | None](
        None, "Called with each batch before it is used.", since="1.x"
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        double_q: bool = NOT_PROVIDED,
        dueling: bool = NOT_PROVIDED,
        hiddens: list[int] = NOT_PROVIDED,
        noisy: bool = NOT_PROVIDED,
        sigma0: float = NOT_PROVIDED,
        num_atoms: int = NOT_PROVIDED,
        v_min: float = NOT_PROVIDED,
        v_max: float = NOT_PROVIDED,
        categorical_distribution_temperature: float = NOT_PROVIDED,
        burn_in_len: int = NOT_PROVIDED,
        before_learn_on_batch: Callable[..., Any] | None = NOT_PROVIDED,
        adam_epsilon: float = NOT_PROVIDED,
        td_error_loss_fn: TdErrorLoss = NOT_PROVIDED,
        epsilon: float | Schedule | None = NOT_PROVIDED,
        **common: Unpack[OffPolicyArguments],
    ) -> Self:
        """Set how DQN learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        if self.num_atoms > 1 and self.v_min >= self.v_max:
            yield f"v_min={self.v_min} is not below v_max={self.v_max}; returns of atoms lie between them"
        if self.noisy and self.exploration_config.get("type") == "ParameterNoise":
            yield "noisy=True and exploration_config type='ParameterNoise' both change weights; give one of them"
        if self.model.use_lstm and self.burn_in_len >= self.model.max_seq_len:
            yield (
                f"burn_in_len={self.burn_in_len} leaves nothing of model max_seq_len={self.model.max_seq_len} to learn "
                "from; make it smaller"
            )


class DQN(SimpleQ):
    """Q-learning with the parts that make it Rainbow, each of which can be left out."""

    config: DQNConfig
    config_class = DQNConfig

    def network_options(self) -> QNetworkOptions:
        """Return how the network is built."""
        config = self.config
        return replace(
            super().network_options(),
            heads=tuple(config.model.head_fcnet_hiddens or config.hiddens),
            dueling=config.dueling,
            atoms=config.num_atoms,
            v_min=config.v_min,
            v_max=config.v_max,
            noisy=config.noisy,
            sigma=config.sigma0,
        )

    def make_exploration(self) -> Exploration:
        """Return epsilon-greedy choices, unless the settings say otherwise."""
        temperature = self.config.categorical_distribution_temperature
        settings = self.config.exploration_settings
        exploration = exploration_by_values(
            settings, self.distribution.parameter_size, temperature, perturbs=self.perturbs_parameters
        )
        return exploration if self.config.explore else NoExploration(exploration)

    def make_loss(self) -> Loss:
        """Return the error of values, or of their distributions."""
        if self.config.num_atoms > 1:
            return categorical_loss(lambda: self.noise(ONLINE))
        return q_loss(self.config, lambda: self.noise(ONLINE))

    def setup_learning(self) -> None:
        """Draw the first noise, beside what SimpleQ makes."""
        super().setup_learning()
        self.noise_stream = self.stream("noise")
        self.draw_noise()

    def draw_noise(self) -> None:
        """Draw the noise of one update: of the loss, of the target network, and of the choice of actions."""
        module = self.learner.module
        assert isinstance(module, QModule)
        width = module.training_noise_width
        self.drawn_noise = self.noise_stream.standard_normal((3, width), np.float32) if width else None

    def noise(self, use: int) -> Array | None:
        """Return the noise of one use [1, width], which are independent (NoisyNet, equation 16); None for none."""
        return None if self.drawn_noise is None else self.drawn_noise[use : use + 1]

    def draw(self) -> Batch:
        """Return a minibatch of what was kept, as `before_learn_on_batch` leaves it, and draw new noise for it."""
        self.draw_noise()
        batch = super().draw()
        change = self.config.before_learn_on_batch
        if change is None:
            return batch
        changed = change(batch.as_multi_agent(), getattr(self, "runners", None), self.config)
        return changed if isinstance(changed, Batch) else changed.policy_batches[DEFAULT_POLICY_ID]

    def targets_of(self, batch: Batch) -> Array:
        """Return what values [N] or their distributions [N, atoms] are drawn to.

        r + discount * Q'(next, a), where Q' is the target network's, and a is the best action by the network that
        learns if `double_q` (van Hasselt et al., 2015, equation 4), and else by Q'. Of distributions, their projection
        (Bellemare et al., 2017, algorithm 1; with double Q as in Rainbow, section 3).
        """
        target = self.outputs_of(batch[columns.NEXT_OBS], TARGET, self.target.vector)
        chooser = self.outputs_of(batch[columns.NEXT_OBS], CHOICE) if self.config.double_q else target
        best = chooser[columns.Q_VALUES].argmax(axis=1)
        rows = np.arange(len(best))
        chosen = {name: output[rows, best] for name, output in target.items()}
        return self.backed_up(chosen, batch[columns.REWARDS], batch[DISCOUNTS])

    def backed_up(self, chosen: Mapping[str, Array], rewards: Array, discounts: Array) -> Array:
        """Return what the returns of steps are, by what comes after them: values [N], or distributions [N, atoms].

        Args:
            chosen: The target network's outputs for the best actions after the steps: `q_values` [N], and distributions
                [N, atoms] where there are several atoms.
            rewards: The rewards of the steps [N], of n steps their discounted sums.
            discounts: The weights of `chosen` [N]: gamma to the power of n, and 0 where an episode has terminated.
        """
        if self.config.num_atoms == 1:
            targets: Array = rewards + discounts * chosen[columns.Q_VALUES]
            return targets
        shares = NumpyOps().softmax(chosen[Q_LOGITS])
        return project_categorical(shares, rewards, discounts, v_min=self.config.v_min, v_max=self.config.v_max)

    def outputs_of(self, obs: Array, use: int, vector: Any = None, **more: Array) -> dict[str, Array]:
        """Return the values of actions for observations, and what else the network gives, such as logits of atoms.

        Args:
            obs: The observations [N, ...].
            use: The noise that noisy layers have: `ONLINE`, `TARGET` or `CHOICE`.
            vector: The parameters; None for those that learn.
            more: Further inputs of the network.
        """
        inputs, module = {columns.OBS: obs, columns.NOISE: self.noise(use), **more}, self.learner.module
        assert isinstance(module, QModule)

        def forward(nn: Ops, parameters: Parameters) -> dict[str, Any]:
            outputs = module.train(nn, parameters, inputs)
            return {**outputs, columns.Q_VALUES: module.values(nn, outputs)}

        found: dict[str, Array] = self.learner.evaluate(forward, vector)
        return found

    def own_state(self) -> dict[str, Any]:
        """Return where the draws of noise are, and the last of them, beside what SimpleQ keeps."""
        noise = {"noise": self.noise_stream.bit_generator.state, "drawn_noise": self.drawn_noise}
        return {**super().own_state(), **noise}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        super().set_own_state(state)
        self.noise_stream.bit_generator.state = state["noise"]
        self.drawn_noise = state.get("drawn_noise", self.drawn_noise)


def categorical_loss(noise: Callable[[], Array | None] = lambda: None) -> Loss:
    """Return the loss of distributions: KL(m, p(s, a)), of which algorithm 1 of C51 has the part that has a gradient.

    m are `value_targets` [N, atoms], p the probabilities of the action taken. The divergences, weighed by `weights`,
    are the loss, and as in Rainbow (section 3) the errors of which priorities are made.

    Args:
        noise: Gives the noise of the network, [1, width]; None for none.
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        assert isinstance(module, QNetwork)
        outputs = module.train(nn, parameters, {columns.OBS: batch[columns.OBS], columns.NOISE: noise()})
        logits, targets = outputs[Q_LOGITS], batch[columns.VALUE_TARGETS]
        chosen = nn.take_along(logits, batch[columns.ACTIONS][:, None, None], axis=1)[:, 0]
        logs = nn.log_softmax(chosen)
        divergences = nn.constant(-entropies(targets)) - nn.sum(logs * nn.constant(targets), axis=-1)
        total = nn.mean(divergences * nn.constant(batch[columns.WEIGHTS]))
        values = module.values(nn, {Q_LOGITS: nn.stop_gradient(chosen)})
        return total, {"total_loss": total, TD_ERRORS: divergences, **statistics(nn, values)}

    return loss


def entropies(distributions: Array) -> Array:
    """Return the entropy of each distribution [N, atoms]."""
    logs = np.log(np.where(distributions > 0, distributions, 1))
    found: Array = -(distributions * logs).sum(axis=1)
    return found
