"""DreamerV3 (Hafner et al., 2023, arXiv 2301.04104): an actor that learns in what a model of the world imagines.

The model learns from replayed sequences; see `modules.world_model` and `dreamer_losses`. Each of its states, as the
sequences led to them, is where a dream of `horizon_H` steps begins; actor and critic learn from these dreams alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from kernel_rllib.algorithms.dreamer_losses import (
    FEATURES,
    REWARD_BINS,
    SLOW_BINS,
    UNIFORMS,
    VALUE_BINS,
    WEIGHTS,
    actor_loss,
    critic_loss,
    world_loss,
)
from kernel_rllib.algorithms.dreaming import Dream, dreamer
from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import values
from kernel_rllib.config.parts import Part
from kernel_rllib.config.replay_config import UNIFORM, ReplayBufferConfig
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.categorical import Categorical
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.distributions.gaussian import Gaussian
from kernel_rllib.errors import ConfigError
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.modules.module import Module
from kernel_rllib.modules.symlog import expected, two_hot
from kernel_rllib.modules.world_model import BINS, DreamerNetworks
from kernel_rllib.nn.schedules import schedule
from kernel_rllib.replay.streams import StreamReplay
from kernel_rllib.spaces.action_rows import actions_of, row_space
from kernel_rllib.spaces.flatten import Flattener
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.honoured import ONE_HEAD, ONE_PASS
from kernel_rllib.training.results import mean_metrics

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

SizeName = Literal["nano", "micro", "mini", "XXS", "XS", "S", "M", "L", "XL"]
SLOW = 0.02
"""How far the slow copy of the critic follows in each update (section "Critic learning")."""
_PERCENTILES = (5, 95)
_FIXED = "model_size says how large all networks are"


class DreamerV3Config(AlgorithmConfig):
    """The settings of DreamerV3."""

    algorithm = "DreamerV3"
    sees_previous_step = True

    defaults = values(
        gamma=0.997,
        num_env_runners=0,
        rollout_fragment_length=1,
        normalize_actions=True,
        min_time_s_per_iteration=None,
        min_sample_timesteps_per_iteration=1000,
        optimizer=values(epsilon=1e-8),
    )

    model_size = Field[SizeName]("XS", "How large all networks are.", since="2.x")
    training_ratio = Field(1024.0, "Replayed steps of updates for each step of the environment.", above=0, since="2.x")
    batch_size_B = Field(16, "The sequences of an update.", range=(1, None), since="2.x")
    batch_length_T = Field(64, "The steps of a sequence.", range=(2, None), since="2.x")
    horizon_H = Field(15, "The steps of a dream.", range=(1, None), since="2.x")
    gae_lambda = Field(0.95, "How far returns in dreams look ahead before values count.", range=(0, 1), since="2.x")
    entropy_scale = Field(3e-4, "The weight of the policy's entropy.", range=(0, None), since="2.x")
    return_normalization_decay = Field(
        0.99, "How much the range of returns keeps of before in each update.", range=(0, 1), since="2.x"
    )
    train_critic = Field(True, "Whether the critic learns.", since="2.x")
    train_actor = Field(True, "Whether the actor learns.", since="2.x")
    world_model_lr = Field(1e-4, "The learning rate of the model of the world.", above=0, since="2.x")
    actor_lr = Field(3e-5, "The learning rate of the actor.", above=0, since="2.x")
    critic_lr = Field(3e-5, "The learning rate of the critic.", above=0, since="2.x")
    world_model_grad_clip_by_global_norm = Field(1000.0, "The bound of the model's gradient.", above=0, since="2.x")
    actor_grad_clip_by_global_norm = Field(100.0, "The bound of the actor's gradient.", above=0, since="2.x")
    critic_grad_clip_by_global_norm = Field(100.0, "The bound of the critic's gradient.", above=0, since="2.x")
    symlog_obs = Field[bool | Literal["auto"]](
        "auto", "Whether observations are seen in symlog; auto: yes, as they are rows of numbers.", since="2.x"
    )
    replay_buffer_config = Part(ReplayBufferConfig, "The buffer: its size.", since="2.x")
    num_steps_sampled_before_learning_starts = Field(
        0,
        "Steps that are sampled before anything is learned; at least one batch is.",
        range=(0, None),
        unit="env steps",
    )
    store_buffer_in_checkpoints = Field(False, "Whether checkpoints have the buffer's content.", since="2.x")

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        model_size: SizeName = NOT_PROVIDED,
        training_ratio: float = NOT_PROVIDED,
        batch_size_B: int = NOT_PROVIDED,
        batch_length_T: int = NOT_PROVIDED,
        horizon_H: int = NOT_PROVIDED,
        gae_lambda: float = NOT_PROVIDED,
        entropy_scale: float = NOT_PROVIDED,
        return_normalization_decay: float = NOT_PROVIDED,
        train_critic: bool = NOT_PROVIDED,
        train_actor: bool = NOT_PROVIDED,
        world_model_lr: float = NOT_PROVIDED,
        actor_lr: float = NOT_PROVIDED,
        critic_lr: float = NOT_PROVIDED,
        world_model_grad_clip_by_global_norm: float = NOT_PROVIDED,
        actor_grad_clip_by_global_norm: float = NOT_PROVIDED,
        critic_grad_clip_by_global_norm: float = NOT_PROVIDED,
        symlog_obs: bool | Literal["auto"] = NOT_PROVIDED,
        replay_buffer_config: dict[str, Any] | ReplayBufferConfig = NOT_PROVIDED,
        num_steps_sampled_before_learning_starts: int = NOT_PROVIDED,
        store_buffer_in_checkpoints: bool = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how DreamerV3 learns; return this config."""
        return self

    @property
    def steps_of_update(self) -> int:
        """The replayed steps of an update."""
        return self.batch_size_B * self.batch_length_T

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        buffer = self.replay_buffer_config
        if buffer.type != UNIFORM:
            yield (
                f"replay_buffer_config type={buffer.type!r}, and all sequences are as likely as any other; set it to "
                f"{UNIFORM!r}"
            )
        if not self.normalize_actions:
            yield "normalize_actions=False: actions that are a Box are between -1 and 1 here; leave it at True"
        if buffer.capacity < self.batch_length_T * self.total_envs:
            yield (
                f"replay_buffer_config capacity={buffer.capacity} has no room for a sequence of batch_length_T="
                f"{self.batch_length_T} of each of {self.total_envs} environments; make it larger"
            )


class DreamerV3(Algorithm):
    """Trains a model of the world from replayed sequences, and an actor and a critic in its dreams."""

    config: DreamerV3Config
    config_class = DreamerV3Config
    train_rounds = True
    without: ClassVar[Mapping[str, str]] = {
        **ONE_PASS,
        **ONE_HEAD,
        "lr": "its networks have rates of their own: world_model_lr, actor_lr, critic_lr",
        "grad_clip": "its networks have bounds of their own, such as world_model_grad_clip_by_global_norm",
        "grad_clip_by": "gradients are clipped by their global norm",
        "train_batch_size": "a batch has batch_size_B sequences of batch_length_T steps",
        "input_": "it learns from sequences that it samples itself",
        "model/fcnet_hiddens": _FIXED,
        "model/fcnet_activation": _FIXED,
        "model/free_log_std": "its actor gives deviations",
        "exploration_config": "actions are drawn from the actor's distribution",
    }

    # -- building -----------------------------------------------------------------------------------------------------

    @property
    def learns_several(self) -> bool:
        """Return that one policy learns: its memory is of all that it has seen."""
        return False

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return all networks. Raises ConfigError for actions that are neither Discrete nor a Box."""
        if not isinstance(distribution, (Categorical, Gaussian)):
            raise ConfigError(
                f"{self.config.title} acts in spaces that are Discrete or a Box, and this one is {self.spaces.action}: "
                "take PPO, or a wrapper that makes one choice of several"
            )
        self._flattener = Flattener(row_space(self.spaces.action))
        symlogs = self.config.symlog_obs is not False
        size = self.config.model_size
        return DreamerNetworks(observation[0], self._flattener.size, distribution, size=size, symlogs=symlogs)

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the losses of the model of the world, of the actor and of the critic."""
        config = self.config
        actor = actor_loss(self.distribution, config.entropy_scale)
        return {
            "world": self._objective(world_loss(), "world", config.world_model_lr, "world_model"),
            "actor": self._objective(actor, "actor", config.actor_lr, "actor"),
            "critic": self._objective(critic_loss(), "critic", config.critic_lr, "critic"),
        }

    def _objective(self, loss: Loss, below: str, rate: float, name: str) -> Objective:
        clip = getattr(self.config, f"{name}_grad_clip_by_global_norm")
        settings = dict(self.config.optimizer)
        return Objective(loss, schedule(rate, f"{name}_lr"), optimizer_settings=settings, clip=clip, trainable=(below,))

    def setup_learning(self) -> None:
        """Make the buffer, and the slow copy of the critic."""
        width = self._networks.observed + self._networks.actions + 1
        self.replay = StreamReplay(self.config.replay_buffer_config.capacity, width)
        (self._critic,) = self.learner.module.table.mask(("critic",))
        self.slow = self.learner.weights.copy()
        """Parameters whose critic follows slowly; the others are not used [size]."""
        self.range: tuple[float, float] | None = None
        """The range of returns in dreams, from their 5th percentile to their 95th; None before the first."""
        self.owed = 0.0
        """The replayed steps that updates owe to the steps that were sampled."""

    # -- an iteration -------------------------------------------------------------------------------------------------

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Keep what was sampled, and make as many updates as `training_ratio` says."""
        config = self.config
        for fragment in fragments:
            self.replay.add(fragment)
        is_early = self.env_steps_sampled < config.num_steps_sampled_before_learning_starts
        if is_early or len(self.replay) < config.steps_of_update or not self.replay.sequences(config.batch_length_T):
            return {}
        self.owed += self.progress.env_steps_new * config.training_ratio
        due, self.owed = divmod(self.owed, config.steps_of_update)
        if due:
            self.last_metrics = mean_metrics([self.learn_once() for _ in range(int(due))])
        return self.last_metrics

    last_metrics: Metrics = {}  # noqa: RUF012

    def learn_once(self) -> Metrics:
        """Make one update of the model of the world by a batch, and one of the actor and the critic in its dreams."""
        config, stream = self.config, self.stream("update", self.learner.version)
        sampled = self.replay.sample(config.batch_size_B, config.batch_length_T, stream)
        metrics = self.learner.update(self.world_batch(sampled, stream), self.env_steps_sampled, ["world"])
        self.env_steps_trained += config.steps_of_update
        starts = np.asarray(metrics.pop(FEATURES))
        dream = self.dream(starts.reshape(-1, starts.shape[-1]), sampled["terminals"].ravel(), stream)
        batch, told = self.dream_batch(dream)
        only = [name for name, learns in (("actor", config.train_actor), ("critic", config.train_critic)) if learns]
        metrics |= {**self.learner.update(batch, self.env_steps_sampled, only), **told}
        now, slow = self.learner.weights[self._critic], self.slow[self._critic]
        slow += np.float32(SLOW) * (now - slow)
        return metrics

    def world_batch(self, sampled: Mapping[str, Array], stream: np.random.Generator) -> Batch:
        """Return sequences with what z is drawn by, and with rewards as bins."""
        networks = self._networks
        shape = (*sampled["firsts"].shape, networks.size.categoricals)
        rewards = networks.split(sampled[columns.OBS])[2]
        more = {UNIFORMS: stream.random(shape, np.float32), REWARD_BINS: two_hot(rewards, BINS)}
        return Batch({**sampled, **more})

    def dream(self, starts: Array, ended: Array, stream: np.random.Generator) -> Dream:
        """Return dreams of `horizon_H` steps.

        Args:
            starts: The features of the states in which they begin [N, F].
            ended: Flags of the states that nothing follows [N].
            stream: The generator of random numbers that actions and states are drawn by.
        """
        function = dreamer(self._networks, self.distribution, self._seen, starts, ended, self.config.horizon_H, stream)
        found: Dream = self.learner.evaluate(function)
        return found

    def dream_batch(self, dream: Dream) -> tuple[Batch, Metrics]:
        """Return the steps of dreams as a batch for actor and critic, and what is reported of them."""
        config = self.config
        returns = dream.returns(config.gamma, config.gae_lambda)
        low, high = (float(found) for found in np.percentile(returns, _PERCENTILES))
        if self.range is not None:
            decay = config.return_normalization_decay
            low, high = (
                decay * before + (1 - decay) * now for before, now in zip(self.range, (low, high), strict=True)
            )
        self.range = low, high
        advantages = (returns - dream.values[:-1]) / np.float32(max(1.0, high - low))
        features = dream.features[:-1]
        rows = features.reshape(-1, features.shape[-1])
        slow = self.learner.backend.vector(self.slow)
        networks = self._networks
        logits = self.learner.evaluate(lambda nn, p: networks.critic(nn, p, nn.constant(rows)), slow)
        batch = Batch({
            FEATURES: rows,
            columns.ACTIONS: dream.actions.reshape(len(rows), *dream.actions.shape[2:]),
            WEIGHTS: dream.weights(config.gamma).ravel(),
            columns.ADVANTAGES: advantages.ravel().astype(np.float32),
            VALUE_BINS: two_hot(returns.ravel(), BINS),
            SLOW_BINS: two_hot(expected(np.asarray(logits)), BINS),
        })  # fmt: skip
        told = {
            "dream_reward_mean": float(dream.rewards.mean()),
            "dream_return_mean": float(returns.mean()),
            "dream_value_mean": float(dream.values.mean()),
            "return_range": high - low,
        }
        return batch, told

    @property
    def _networks(self) -> DreamerNetworks:
        module = self.learner.module
        assert isinstance(module, DreamerNetworks)
        return module

    def _seen(self, actions: Array) -> Array:
        """Return chosen actions [N, ...] as rows of observations have the last one [N, A]."""
        rows = self._flattener.rows(actions_of(row_space(self.spaces.action), actions))
        return np.clip(rows, -1.0, 1.0).astype(np.float32)

    # -- state --------------------------------------------------------------------------------------------------------

    def own_state(self) -> dict[str, Any]:
        """Return the slow critic, the range of returns, and the buffer where the settings say so."""
        kept = {"slow": self.slow.copy(), "range": list(self.range or ()), "owed": self.owed}
        return {**kept, **({"replay": self.replay.state()} if self.config.store_buffer_in_checkpoints else {})}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        self.slow = np.array(state["slow"], np.float32)
        self.range = (float(state["range"][0]), float(state["range"][1])) if state["range"] else None
        self.owed = float(state["owed"])
        if "replay" in state:
            self.replay.set_state(state["replay"])
