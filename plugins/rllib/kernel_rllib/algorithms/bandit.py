"""Linear bandits: LinUCB (Li et al. 2010, arXiv:1003.0146) and LinTS (Agrawal and Goyal 2012, arXiv:1209.3352).

Expected rewards are linear in what is seen. Each step is learned from at once, exactly: there is no gradient, and no
learning rate. The two differ in how they explore.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from gymnasium.spaces import Discrete

from kernel_rllib.algorithms.off_policy import exploration_by_values
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.data import columns
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError, ModuleError
from kernel_rllib.exploration.exploration import Exploration
from kernel_rllib.exploration.linear import ThompsonSampling, UpperConfidenceBound
from kernel_rllib.learners.learner import Metrics, Objective
from kernel_rllib.learners.linear_posterior import LinearPosteriors
from kernel_rllib.modules.linear_arms import ArmFeatures, LinearArms
from kernel_rllib.modules.module import Module
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.exploration_of_users import exploration_name
from kernel_rllib.training.honoured import ONE_HEAD, ONE_PASS

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

REGRET = "regret"
"""The key of the regret in an environment's info: by how much the best arm was better, on average. Results sum it."""
_OPTIONS = ("alpha", "lambda_")
"""Settings that releases of RLlib took as options of the model."""


class BanditConfig(AlgorithmConfig):
    """The settings that all linear bandits share."""

    defaults = values(
        num_env_runners=0,
        rollout_fragment_length=1,
        train_batch_size=1,
        min_sample_timesteps_per_iteration=100,
        framework_str=Default("auto", older={"2.x": "torch"}),
    )
    in_all_dicts: ClassVar[tuple[str, ...]] = ("min_sample_timesteps_per_iteration",)

    alpha = Field(1.0, "How many deviations of expected rewards are explored.", range=(0, None), since="current")
    lambda_ = Field(1.0, "The precision of the prior of weights: the strength of the ridge.", above=0, since="current")

    @fluent()
    def training(  # type: ignore[override]
        self, *, alpha: float = NOT_PROVIDED, lambda_: float = NOT_PROVIDED, **common: Unpack[TrainingArguments]
    ) -> Self:
        """Set how bandits learn; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        for name in set(self.model.own_names()) & set(_OPTIONS):
            if self.is_set(name) and getattr(self, name) != self.model[name]:
                yield f"{name}={getattr(self, name)} and model {name}={self.model[name]} disagree; give one of them"

    def posterior_setting(self, name: str) -> float:
        """Return `alpha` or `lambda_`, which may be given as an option of the model, too."""
        is_option = name in self.model.own_names() and not self.is_set(name)
        return float(self.model[name] if is_option else getattr(self, name))


class BanditLinUCBConfig(BanditConfig):
    """The settings of LinUCB."""

    algorithm = "BanditLinUCB"
    defaults = values(
        exploration_config=Default(
            values(type="UpperConfidenceBound"),
            older={"0.8.5": values(type="ray.rllib.contrib.bandits.exploration.UCB")},
        )
    )


class BanditLinTSConfig(BanditConfig):
    """The settings of LinTS."""

    algorithm = "BanditLinTS"
    defaults = values(
        exploration_config=Default(
            values(type="ThompsonSampling"),
            older={"0.8.5": values(type="ray.rllib.contrib.bandits.exploration.ThompsonSampling")},
        )
    )


class Bandit(Algorithm):
    """Learns the expected rewards of arms by Bayesian linear regression, a step at a time."""

    config: BanditConfig
    config_class = BanditConfig
    action_kinds = ("discrete",)
    told = (REGRET,)
    without: ClassVar[Mapping[str, str]] = {
        **ONE_PASS,
        **ONE_HEAD,
        "gamma": "an arm has no effect on what comes next",
        "lr": "a posterior is computed, without steps; lambda_ says how strong the prior is",
        "grad_clip": "there is no gradient",
        "grad_clip_by": "there is no gradient",
        "optimizer": "there is no optimizer",
        "model/fcnet_hiddens": "rewards are linear in what is seen",
        "model/fcnet_activation": "rewards are linear in what is seen",
        "model/free_log_std": "its actions are discrete",
    }
    posteriors: LinearPosteriors
    """The posteriors of the weights, in float64. Runners act by a copy of them in float32."""

    def settings_acted_on(self) -> frozenset[str]:
        """Return the settings that bandits act on: options of the model, if no others than these are given."""
        own = self.config.model.own_names()
        return self.acts_on | {"model"} if own and set(own) <= set(_OPTIONS) else self.acts_on

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return the model of each arm, or the one of all where arms have features.

        Raises:
            ConfigError: If actions are not those of a Discrete space, or observations have features for other arms.
        """
        action = self.spaces.action
        if not isinstance(action, Discrete):
            raise ConfigError(
                f"{self.config.title}: an arm is an action of a Discrete space, but the environment takes {action}; "
                "take PPO for it"
            )
        try:
            features = ArmFeatures.of(self.spaces.observation, int(action.n), observation[0])
        except ModuleError as error:
            raise ConfigError(f"{self.config.title}: {error}") from error
        return LinearArms(features, self.config.posterior_setting("lambda_"))

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return nothing: a posterior has no loss."""
        return {}

    def make_exploration(self) -> Exploration:
        """Return how arms are chosen: by their posteriors, or by their values where settings say so."""
        settings, module = self.config.exploration_config, self._arms
        alpha, features = self.config.posterior_setting("alpha"), module.features
        name = exploration_name(settings, "UpperConfidenceBound")
        if name in ("UCB", "UpperConfidenceBound", "ThompsonSampling"):
            options = sorted(set(settings) - {"type"})
            if options:
                raise ConfigError(
                    f"exploration_config has {', '.join(options)}, which {name} does not take: set how far it explores "
                    "by training(alpha=...)"
                )
            if name != "ThompsonSampling":
                return UpperConfidenceBound(alpha)
            shared = features.item is not None
            return ThompsonSampling(alpha, arms=features.arms, features=features.size, shared=shared)
        return exploration_by_values(settings, features.arms)

    def setup_learning(self) -> None:
        """Begin with the prior."""
        features = self._arms.features
        lambda_ = self.config.posterior_setting("lambda_")
        self.posteriors = LinearPosteriors(features.models, features.size, lambda_)
        self.regret: float | None = None
        """The sum of what environments told of regret; None where they told nothing."""

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Learn from each step, in the order of steps and of lanes in each."""
        errors: list[float] = []
        for fragment in fragments:
            batch = fragment.batch()
            told = batch.get(REGRET)
            if told is not None and not np.isnan(told).all():
                self.regret = (self.regret or 0.0) + float(np.nansum(told))
            obs, rewards = batch[columns.OBS].astype(np.float64), batch[columns.REWARDS].astype(np.float64)
            models, rows = self._arms.features.of_pulled(obs, batch[columns.ACTIONS])
            for model, row, reward in zip(models.tolist(), rows, rewards.tolist(), strict=True):
                errors.append(self.posteriors.learn(model, row, reward))
        self.env_steps_trained += len(errors)
        self._hand_over()
        regret = {} if self.regret is None else {"cumulative_regret": self.regret}
        return {"mean_squared_error": float(np.mean(np.square(errors))) if errors else float("nan"), **regret}

    def own_state(self) -> dict[str, Any]:
        """Return the posteriors, and the regret so far."""
        return {"posteriors": self.posteriors.state(), "regret": self.regret}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        self.posteriors.set_state(state["posteriors"])
        self.regret = state["regret"]

    def _hand_over(self) -> None:
        """Write the posteriors into the parameters that runners act with."""
        views = self.learner.module.table.views(self.learner.vector)
        views["means"][...] = self.posteriors.means.T
        views["roots"][...] = self.posteriors.roots.transpose(1, 0, 2).reshape(views["roots"].shape)
        self.learner.version += 1

    @property
    def _arms(self) -> LinearArms:
        module = self.learner.module
        assert isinstance(module, LinearArms)
        return module


class BanditLinUCB(Bandit):
    """Takes the arm whose reward may be the greatest, as far as what is known of it allows."""

    config_class = BanditLinUCBConfig


class BanditLinTS(Bandit):
    """Draws what rewards may be from what is known of them, and takes the arm that is best by that."""

    config_class = BanditLinTSConfig
