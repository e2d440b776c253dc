"""Dreamer (Hafner et al., 2019, arXiv 1912.01603): an actor that learns by gradients through imagined steps.

The dynamics learn from replayed sequences; see `modules.latent_dynamics` and `dreamer_v1_losses`. Each of their states
is where `imagine_horizon` imagined steps begin. What these earn has a gradient by the actor's parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kernel_rllib.algorithms.dreamer_v1_losses import (
    ACTION_NOISE,
    FEATURES,
    NOISE,
    WEIGHTS,
    actor_loss,
    critic_loss,
    world_loss,
)
from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.distributions.squashed_gaussian import SquashedGaussian
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.exploration import Exploration
from kernel_rllib.exploration.prefilled import PrefilledDraws
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.modules.latent_dynamics import LatentDynamics, LatentSizes
from kernel_rllib.modules.module import Module
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.nn.schedules import schedule
from kernel_rllib.replay.streams import StreamReplay
from kernel_rllib.spaces.action_rows import row_bounds, row_space
from kernel_rllib.spaces.squash import normalised_space
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.honoured import ONE_HEAD, ONE_PASS
from kernel_rllib.training.results import mean_metrics

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

_IN_RLLIB = ("custom_model", "custom_model_config")
_FIXED = "dreamer_model says how wide all networks are"


class DreamerConfig(AlgorithmConfig):
    """The settings of Dreamer."""

    algorithm = "Dreamer"
    sees_previous_step = True

    defaults = values(
        num_env_runners=0,
        rollout_fragment_length=1,
        batch_mode="complete_episodes",
        grad_clip=100.0,
        normalize_actions=True,
        min_time_s_per_iteration=None,
    )

    td_model_lr = Field(6e-4, "The learning rate of the dynamics.", above=0, since="1.x")
    actor_lr = Field(8e-5, "The learning rate of the actor.", above=0, since="1.x")
    critic_lr = Field(8e-5, "The learning rate of the critic.", above=0, since="1.x")
    lambda_ = Field(0.95, "How far imagined returns look ahead before values count.", range=(0, 1))
    dreamer_train_iters = Field(100, "The updates after each round of episodes.", range=(1, None), since="1.x")
    batch_size = Field(50, "The sequences of an update.", range=(1, None), since="1.x")
    batch_length = Field(50, "The steps of a sequence.", range=(2, None), since="1.x")
    imagine_horizon = Field(15, "The steps that are imagined.", range=(2, None), since="1.x")
    free_nats = Field(3.0, "The divergence below which dynamics need not get better.", range=(0, None), since="1.x")
    kl_coeff = Field(1.0, "The weight of that divergence.", range=(0, None), since="1.x")
    prefill_timesteps = Field(
        5000, "The steps of any actions at first, before anything is learned.", range=(0, None), unit="env steps",
        since="1.x",
    )  # fmt: skip
    explore_noise = Field(0.3, "The deviation of the noise on actions.", range=(0, None), since="1.x")
    dreamer_model = Field[dict[str, Any]](
        {}, "Options of the networks: deter_size, stoch_size, hidden_size, action_init_std.", since="1.x"
    )
    buffer_size = Field(100_000, "The steps that are kept.", range=(1, None), unit="env steps", since="current")
    store_buffer_in_checkpoints = Field(False, "Whether checkpoints have the buffer's content.", since="1.x")

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        td_model_lr: float = NOT_PROVIDED,
        actor_lr: float = NOT_PROVIDED,
        critic_lr: float = NOT_PROVIDED,
        lambda_: float = NOT_PROVIDED,
        dreamer_train_iters: int = NOT_PROVIDED,
        batch_size: int = NOT_PROVIDED,
        batch_length: int = NOT_PROVIDED,
        imagine_horizon: int = NOT_PROVIDED,
        free_nats: float = NOT_PROVIDED,
        kl_coeff: float = NOT_PROVIDED,
        prefill_timesteps: int = NOT_PROVIDED,
        explore_noise: float = NOT_PROVIDED,
        dreamer_model: dict[str, Any] = NOT_PROVIDED,
        buffer_size: int = NOT_PROVIDED,
        store_buffer_in_checkpoints: bool = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how Dreamer learns; return this config."""
        return self

    @property
    def sizes(self) -> LatentSizes:
        """The sizes of the networks."""
        return LatentSizes(**{name: value for name, value in self.dreamer_model.items() if name not in _IN_RLLIB})

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        known = [each.name for each in fields(LatentSizes)]
        for name in self.dreamer_model:
            if name not in (*known, *_IN_RLLIB):
                yield f"dreamer_model sets {name!r}, which is no option{did_you_mean(name, known)}"
        if self.dreamer_model.get("custom_model"):
            yield "dreamer_model has a custom_model, and its networks are dense ones here; leave it out"
        if not self.normalize_actions:
            yield "normalize_actions=False: its actor acts between -1 and 1; leave it at True"
        if self.buffer_size < self.batch_length * self.total_envs:
            yield (
                f"buffer_size={self.buffer_size} has no room for a sequence of batch_length={self.batch_length} of "
                f"each of {self.total_envs} environments; make it larger"
            )


class Dreamer(Algorithm):
    """Trains dynamics from replayed sequences, and an actor by gradients through what they imagine."""

    config: DreamerConfig
    config_class = DreamerConfig
    action_kinds = ("continuous",)
    train_rounds = True
    without: ClassVar[Mapping[str, str]] = {
        **ONE_PASS,
        **ONE_HEAD,
        "lr": "its networks have rates of their own: td_model_lr, actor_lr, critic_lr",
        "train_batch_size": "a batch has batch_size sequences of batch_length steps",
        "input_": "it learns from sequences that it samples itself",
        "model/fcnet_hiddens": _FIXED,
        "model/fcnet_activation": _FIXED,
        "model/free_log_std": "its actor gives deviations",
        "exploration_config": "explore_noise and prefill_timesteps say how it explores",
    }

    @property
    def learns_several(self) -> bool:
        """Return that one policy learns: its memory is of all that it has seen."""
        return False

    def make_distribution(self, action_space: Any) -> Distribution:
        """Return a squashed normal distribution. Raises ConfigError for actions that are no Box."""
        learned = normalised_space(row_space(action_space))
        found = for_space(learned, box="squashed_gaussian")
        if not isinstance(found, SquashedGaussian):
            raise ConfigError(
                f"{self.config.title} acts in spaces that are a Box of floats with bounds, and this one is "
                f"{action_space}: take DreamerV3, or PPO"
            )
        self.bounds = row_bounds(learned)
        return found

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return all networks."""
        return LatentDynamics(observation[0], distribution.action_size, self.config.sizes)

    def make_exploration(self) -> Exploration:
        """Return that anything is done at first, and then what is drawn, with noise."""
        config = self.config
        return PrefilledDraws(
            self.distribution, self.bounds, stddev=config.explore_noise, prefill=config.prefill_timesteps
        )

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the losses of the dynamics, of the actor and of the critic."""
        config = self.config
        actor = actor_loss(self.distribution, config.gamma, config.lambda_)
        return {
            "world": self._objective(world_loss(config.kl_coeff, config.free_nats), "world", "td_model_lr"),
            "actor": self._objective(actor, "actor", "actor_lr"),
            "critic": self._objective(critic_loss(), "critic", "critic_lr"),
        }

    def _objective(self, loss: Loss, below: str, lr: str) -> Objective:
        made = self.objective(loss, (below,), lr=lr)
        made.learning_rate = schedule(getattr(self.config, lr), lr)
        return made

    def setup_learning(self) -> None:
        """Make the buffer."""
        networks = self._networks
        self.replay = StreamReplay(self.config.buffer_size, networks.observed + networks.actions + 1)

    # -- an iteration -------------------------------------------------------------------------------------------------

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Keep what was sampled, and make `dreamer_train_iters` updates."""
        config = self.config
        for fragment in fragments:
            self.replay.add(fragment)
        if self.env_steps_sampled < config.prefill_timesteps or not self.replay.sequences(config.batch_length):
            return {}
        return mean_metrics([self.learn_once() for _ in range(config.dreamer_train_iters)])

    def learn_once(self) -> Metrics:
        """Make one update of the dynamics by a batch, and one of the actor and the critic in what they imagine."""
        config, learner = self.config, self.learner
        stream, made = self.stream("update", learner.version), self.env_steps_sampled
        sampled = self.replay.sample(config.batch_size, config.batch_length, stream)
        width = self._networks.sizes.stoch_size
        noise = stream.standard_normal((config.batch_length, config.batch_size, width), np.float32)
        metrics = learner.update(Batch({**sampled, NOISE: noise}), made, ["world"])
        self.env_steps_trained += config.batch_length * config.batch_size
        starts = np.asarray(metrics.pop(FEATURES))
        metrics |= learner.update(self.imagined_batch(starts.reshape(-1, starts.shape[-1]), stream), made, ["actor"])
        features, targets = (np.asarray(metrics.pop(name)) for name in (FEATURES, columns.VALUE_TARGETS))
        weights = np.repeat(np.float32(config.gamma) ** np.arange(len(targets)), targets.shape[1])
        rows = features.reshape(-1, features.shape[-1])
        batch = Batch({FEATURES: rows, columns.VALUE_TARGETS: targets.ravel(), WEIGHTS: weights.astype(np.float32)})
        return {**metrics, **learner.update(batch, made, ["critic"])}

    def imagined_batch(self, starts: Array, stream: np.random.Generator) -> Batch:
        """Return states to begin in [N, F], with what actions and states are drawn by."""
        steps, count, networks = self.config.imagine_horizon, len(starts), self._networks
        return Batch({
            FEATURES: starts,
            ACTION_NOISE: stream.standard_normal((count, steps, self.distribution.noise.width), np.float32),
            NOISE: stream.standard_normal((count, steps, networks.sizes.stoch_size), np.float32),
        })  # fmt: skip

    @property
    def _networks(self) -> LatentDynamics:
        module = self.learner.module
        assert isinstance(module, LatentDynamics)
        return module

    # -- state --------------------------------------------------------------------------------------------------------

    def own_state(self) -> dict[str, Any]:
        """Return the buffer, where the settings say so."""
        return {"replay": self.replay.state()} if self.config.store_buffer_in_checkpoints else {}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        if "replay" in state:
            self.replay.set_state(state["replay"])
