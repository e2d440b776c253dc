"""Decision Transformer (Chen et al. 2021, arXiv 2106.01345): act so that a return is reached that is asked for.

A transformer learns which actions were taken where so much was still to come. Asked for a high return, it takes those
of good episodes; asked for a low one, those of bad ones. Nothing is bootstrapped, and no value is learned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete

from kernel_rllib.algorithms.target_returns import TargetReturns
from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.connectors.env_to_module import ObservationConnector
from kernel_rllib.connectors.previous_steps import PreviousSteps
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.deterministic import Deterministic
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.modules.decision_transformer import (
    DROPOUT,
    NEXT_OBSERVATIONS,
    NEXT_RETURNS,
    DecisionTransformer,
    DecisionTransformerOptions,
    Dropout,
)
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.replay.segments import SegmentReplay, episodes_of
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.honoured import ONE_HEAD, ONE_PASS
from kernel_rllib.training.results import mean_metrics

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

_NO_DENSE = "its network is a transformer: embed_dim, num_layers and num_heads say how large it is"


class DTConfig(AlgorithmConfig):
    """The settings of the Decision Transformer. `offline_data(input_=...)` says what it learns from."""

    algorithm = "DT"

    defaults = values(
        lr=1e-4,
        train_batch_size=512,
        num_env_runners=0,
        rollout_fragment_length=200,
        batch_mode="complete_episodes",
        min_train_timesteps_per_iteration=5000,
        optimizer={"weight_decay": 1e-4, "betas": (0.9, 0.95)},
    )

    target_return = Field[float | None](
        None, "The return that is to be reached where an episode is played.", unit="return"
    )
    return_scale = Field[float | None](
        None, "What returns are divided by before the network sees them; None: by target_return.", above=0
    )
    embed_dim = Field(128, "The width of tokens.", range=(1, None))
    num_layers = Field(2, "The number of blocks of the transformer.", range=(1, None))
    num_heads = Field(1, "The number of heads of each block.", range=(1, None))
    embed_pdrop = Field(0.1, "The share of tokens' numbers that are left out while learning.", range=(0, 0.99))
    resid_pdrop = Field(0.1, "The same of what layers give.", range=(0, 0.99))
    attn_pdrop = Field(0.1, "The same of attention.", range=(0, 0.99))
    loss_coef_actions = Field(1.0, "The weight of the loss of actions.", range=(0, None))
    loss_coef_obs = Field(0.0, "The weight of the loss of next observations.", range=(0, None))
    loss_coef_returns_to_go = Field(0.0, "The weight of the loss of next returns-to-go.", range=(0, None))
    replay_buffer_size = Field(
        100_000, "How many of the last steps that were read are learned from.", range=(1, None), unit="env steps"
    )
    store_buffer_in_checkpoints = Field(
        False, "Whether checkpoints have these steps, so that runs go on with the same bits."
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        target_return: float | None = NOT_PROVIDED,
        horizon: int | None = NOT_PROVIDED,
        return_scale: float | None = NOT_PROVIDED,
        embed_dim: int = NOT_PROVIDED,
        num_layers: int = NOT_PROVIDED,
        num_heads: int = NOT_PROVIDED,
        embed_pdrop: float = NOT_PROVIDED,
        resid_pdrop: float = NOT_PROVIDED,
        attn_pdrop: float = NOT_PROVIDED,
        loss_coef_actions: float = NOT_PROVIDED,
        loss_coef_obs: float = NOT_PROVIDED,
        loss_coef_returns_to_go: float = NOT_PROVIDED,
        replay_buffer_size: int = NOT_PROVIDED,
        store_buffer_in_checkpoints: bool = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how the Decision Transformer learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        if self.embed_dim % self.num_heads:
            yield f"embed_dim={self.embed_dim} can't be shared by num_heads={self.num_heads}; make it a multiple"
        if self.batch_mode != "complete_episodes":
            yield (
                f"batch_mode={self.batch_mode!r} cuts episodes, and what was still to come is known of whole ones "
                "only; leave it at 'complete_episodes'"
            )

    @property
    def scale_of_returns(self) -> float:
        """What returns are divided by."""
        if self.return_scale is not None:
            return float(self.return_scale)
        return abs(float(self.target_return or 0.0)) or 1.0


class DT(TargetReturns, Algorithm):
    """Keeps the episodes that are read, and learns from segments of them."""

    config: DTConfig
    config_class = DTConfig
    acts_on = frozenset({"model/max_seq_len"})
    train_rounds = True
    without: ClassVar[Mapping[str, str]] = {
        **ONE_PASS,
        **ONE_HEAD,
        "gamma": "what was still to come is not discounted",
        **dict.fromkeys(("model/fcnet_hiddens", "model/fcnet_activation", "model/free_log_std"), _NO_DENSE),
    }

    def setup(self, config: dict[str, Any]) -> None:
        """Make all parts. Raises ConfigError for several agents."""
        super().setup(config)
        if self.has_several_agents:
            raise ConfigError(
                f"{self.config.title}: it plays one agent, and there are several; take BC or MARWIL for theirs"
            )

    def make_distribution(self, action_space: Any) -> Distribution:
        """Return the distribution of actions: of continuous ones all mass is on one.

        Raises:
            ConfigError: If actions are neither discrete nor continuous.
        """
        if isinstance(action_space, Box):
            return Deterministic(int(np.prod(action_space.shape)))
        if isinstance(action_space, Discrete):
            return super().make_distribution(action_space)
        raise ConfigError(
            f"{self.config.title}: actions are of {action_space}, and have to be Discrete or a Box; take BC or MARWIL"
        )

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return the transformer. Raises ConfigError where it is not said what is to be reached, and in what time."""
        config, space = self.config, self.spaces.action
        if config.target_return is None:
            raise ConfigError(
                f"{config.title}: target_return is None, but it says which return is to be reached; set it to a good "
                "one of the data"
            )
        if config.horizon is None:
            raise ConfigError(
                f"{config.title}: horizon is None, but steps are numbered up to it; set it to the most steps of an "
                "episode"
            )
        is_discrete = isinstance(space, Discrete)
        actions = int(space.n) if isinstance(space, Discrete) else distribution.action_size
        is_finite = isinstance(space, Box) and bool(np.isfinite([space.low, space.high]).all())
        options = DecisionTransformerOptions(
            steps=config.model.max_seq_len,
            horizon=int(config.horizon),
            width=config.embed_dim,
            layers=config.num_layers,
            heads=config.num_heads,
            embedding_dropout=config.embed_pdrop,
            layer_dropout=config.resid_pdrop,
            attention_dropout=config.attn_pdrop,
            target=float(config.target_return),
            return_scale=config.scale_of_returns,
            is_bounded=is_finite and config.normalize_actions,
            is_discrete=is_discrete,
            predicts_observations=config.loss_coef_obs > 0,
            predicts_returns=config.loss_coef_returns_to_go > 0,
        )
        return DecisionTransformer(observation[0], actions, options)

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the loss."""
        return {"dt": self.objective(dt_loss(self.config, self._left_out))}

    def setup_learning(self) -> None:
        """Make the buffer."""
        self.replay = SegmentReplay(self.config.replay_buffer_size, self.config.model.max_seq_len)
        self.draws = self.stream("replay")

    def policy_blueprint(self, config: AlgorithmConfig, *, evaluates: bool = False) -> PolicyBlueprint:
        """Return the blueprint by which the policy acts: it sees the step before, and aims at what `config` says."""
        made = super().policy_blueprint(config, evaluates=evaluates)
        assert isinstance(made.module, DecisionTransformer) and isinstance(config, DTConfig)
        connectors = _WithStepBefore(made.observation_connectors, self.spaces.action)
        module = made.module.with_options(target=float(config.target_return or 0.0))
        return replace(made, module=module, observation_connectors=connectors)

    def make_runners(self, settings: GroupSettings) -> RunnerGroup:
        """Return the runners. Recorded rows have only what was observed, and nothing is remembered for them."""
        acting = self.blueprint
        if self.config.input_ != "sampler" and isinstance(acting, PolicyBlueprint):
            assert isinstance(acting.module, DecisionTransformer)
            connectors = acting.observation_connectors
            assert isinstance(connectors, _WithStepBefore)
            module = acting.module.with_options(remembers=False)
            self.blueprint = replace(acting, module=module, observation_connectors=connectors.others)
        try:
            return super().make_runners(settings)
        finally:
            self.blueprint = acting

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Keep what was read, and make one update by segments with `train_batch_size` steps."""
        width = self.transformer.observations
        for fragment in fragments:
            for episode in episodes_of(fragment):
                episode[columns.OBS] = episode[columns.OBS][:, :width]  # without the step before
                self.replay.add(episode)
        if not len(self.replay):
            return {}
        count = max(1, round(self.config.total_train_batch_size / self.config.model.max_seq_len))
        return mean_metrics([self.update(self.replay.sample(count, self.draws))])

    def update(self, batch: Batch, only: Sequence[str] | None = None) -> Metrics:
        """Make an update, and count its steps."""
        metrics = super().update(batch, only)
        self.env_steps_trained += int(batch[columns.LOSS_MASK].sum()) - batch.count
        return metrics

    @property
    def transformer(self) -> DecisionTransformer:
        """The module."""
        assert isinstance(self.learner.module, DecisionTransformer)
        return self.learner.module

    def own_state(self) -> dict[str, Any]:
        """Return where draws are; the kept steps too, where settings say so."""
        state: dict[str, Any] = {"draws": self.draws.bit_generator.state}
        if self.config.store_buffer_in_checkpoints:
            state["replay"] = self.replay.state()
        return state

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        self.draws.bit_generator.state = state["draws"]
        if "replay" in state:
            self.replay.set_state(state["replay"])

    def _left_out(self, shape: tuple[int, ...], share: float) -> Array:
        """Return 0 where something is left out, and else what makes the mean the same."""
        kept = self.draws.random(shape, np.float32) >= share
        found: Array = kept.astype(np.float32) / np.float32(1 - share)
        return found


class _WithStepBefore:
    """Makes connectors, and one more that appends the action and the reward of the step before."""

    def __init__(self, others: Callable[[bool], Sequence[ObservationConnector]], action_space: Space[Any]) -> None:
        self.others, self._action_space = others, action_space

    def __call__(self, learns: bool) -> Sequence[ObservationConnector]:
        return [*self.others(learns), PreviousSteps(self._action_space)]


def dt_loss(config: DTConfig, dropout: Dropout | None) -> Loss:
    """Return the loss of the paper (section 3), and those of RLlib for what comes next.

    L = c_a L_a + c_s |s' - s'_predicted|^2 + c_R (R' - R'_predicted)^2, in which L_a is -log pi(a) of discrete actions
    and |a - a_predicted|^2 / A of continuous ones; means over all steps of segments that there are.

    Args:
        config: Gives the weights c.
        dropout: Draws what is left out of layers; None for nothing.
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
        assert isinstance(module, DecisionTransformer)
        outputs = module.train(nn, parameters, {**batch, DROPOUT: dropout})
        mask = batch[columns.LOSS_MASK]
        predicted, actions = outputs[columns.ACTION_DIST_INPUTS], batch[columns.ACTIONS]
        if module.options.is_discrete:
            terms = -nn.log_softmax_at(predicted, actions)
        else:
            terms = nn.mean(nn.square(predicted - nn.constant(actions)), axis=-1)
        metrics = {"action_loss": _mean(nn, terms, mask)}
        total = config.loss_coef_actions * metrics["action_loss"]
        followed = mask[:, :-1] * mask[:, 1:]
        if NEXT_OBSERVATIONS in outputs:
            missed = outputs[NEXT_OBSERVATIONS][:, :-1] - nn.constant(batch[columns.OBS][:, 1:])
            metrics["obs_loss"] = _mean(nn, nn.mean(nn.square(missed), axis=-1), followed)
            total = total + config.loss_coef_obs * metrics["obs_loss"]
        if NEXT_RETURNS in outputs:
            scaled = batch[columns.RETURNS_TO_GO][:, 1:] / config.scale_of_returns
            missed = outputs[NEXT_RETURNS][:, :-1] - nn.constant(scaled)
            metrics["returns_to_go_loss"] = _mean(nn, nn.square(missed), followed)
            total = total + config.loss_coef_returns_to_go * metrics["returns_to_go_loss"]
        return total, {**metrics, "total_loss": total}

    return loss


def _mean(nn: Ops, terms: Any, mask: Array) -> Any:
    """Return the mean of terms where the mask is 1."""
    return nn.sum(terms * nn.constant(mask.astype(np.float64) / max(float(mask.sum()), 1.0)))
