"""Evolution of a policy by the returns of its episodes only: trials, statistics, and one step of gradient ascent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.moments import with_learned
from kernel_rllib.connectors.pipeline import FILTER, FILTERS
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.distributions.deterministic import Deterministic
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.distributions.product import Product
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.directions import Directions
from kernel_rllib.exploration.exploration import Exploration, NoExploration, StochasticSampling
from kernel_rllib.learners.learner import Loss, Metrics
from kernel_rllib.modules.catalog import activation_name
from kernel_rllib.modules.dense_policy import DensePolicy
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.episodes import EpisodeSummary
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.runners.population import Population
from kernel_rllib.runners.trials import Outcomes, Trial, TrialSettings
from kernel_rllib.spaces.action_rows import row_space
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.honoured import ONE_PASS
from kernel_rllib.training.parts import group_settings_of
from kernel_rllib.training.results import EpisodeWindow, ResultTree, merged

if TYPE_CHECKING:
    pass

ASCENT = "ascent"
"""The column of the one batch that is learned from: the direction uphill, a number for each parameter."""


@dataclass(frozen=True)
class Pairs:
    """Holds the results of one generation.

    Attributes:
        returns: Of each direction, in their order: the return along it, and that against it [n, 2].
        outcomes: Of all trials.
    """

    returns: Array
    outcomes: Outcomes

    @property
    def undisturbed(self) -> Array:
        """Whether each outcome is of the undisturbed parameters, as booleans."""
        found: Array = self.outcomes.side == 0
        return found


class Evolution(Algorithm):
    """Plays episodes along directions and against them, and takes a step where they say it goes uphill."""

    config: Any
    learns_in_runners = True
    without: ClassVar[Mapping[str, str]] = {
        **ONE_PASS,
        "gamma": "the returns of trials are sums of rewards",
        "lr": "its step has a name of its own: stepsize (ES), sgd_stepsize (ARS)",
        "rollout_fragment_length": "trials are whole episodes",
        "model/vf_share_layers": "there is no value of states",
        "input_": "it learns from the returns of trials that it plays itself",
        "output": "trials tell their returns alone, and keep no steps; write what PPO or DQN sample",
    }

    # -- what an algorithm of its own writes --------------------------------------------------------------------------

    @abstractmethod
    def ascent(self, pairs: Pairs) -> Array:
        """Return the direction uphill [size] that the returns of a generation tell."""

    @abstractmethod
    def play_generation(self) -> Pairs:
        """Play as many trials as an update needs."""

    # -- parts --------------------------------------------------------------------------------------------------------

    def setup(self, config: dict[str, Any]) -> None:
        """Make the policy, and the players of its trials."""
        if self._settings.env_task_fn is not None:
            raise ConfigError(
                f"{self._settings.algorithm} plays each trial in any of its environments, so tasks of env_task_fn "
                "would have no effect: take another algorithm, or let env_config say the task"
            )
        if self._settings.render_env:
            raise ConfigError(
                f"{self._settings.algorithm} plays its trials in any order, so render_env would film no course of "
                "training: leave it out, and call rllib evaluate --video-dir with a checkpoint"
            )
        super().setup(config)
        self.directions = Directions(self.seed, self.learner.module.table.size, self.config.noise_size)
        self.episodes = EpisodeWindow(self.config.report_length)
        self.trials_played = 0
        if not isinstance(self.blueprint, Blueprint):
            raise ConfigError(
                f"{self.config.algorithm} learns one policy of one agent, and the environment has several agents: take "
                "PPO, or an environment with one"
            )
        settings = TrialSettings(
            self.blueprint,
            self.distribution,
            noise_stdev=self.config.noise_stdev,
            action_noise_std=self.config.action_noise_std,
            offset=float(getattr(self.config, "offset", 0)),
            noise_size=self.config.noise_size,
        )
        self.population = Population(settings, group_settings_of(self.config, self.cpu_share))

    def group_settings(self) -> GroupSettings:
        """Return that there are no runners: the group keeps what the filter has learned. Players play the trials."""
        return GroupSettings(lanes=(), remote=True)

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return the policy. Raises ConfigError for pictures."""
        if len(observation) != 1:
            raise ConfigError(
                f"{self.config.algorithm} has policies of dense layers, which take no observations of shape "
                f"{observation}: make them flat by a wrapper, or take PPO"
            )
        model = self.config.model
        activation = activation_name(model.fcnet_activation)
        return DensePolicy(
            observation[0], distribution.parameter_size, hidden=tuple(model.fcnet_hiddens), activation=activation
        )

    def make_distribution(self, action_space: Any) -> Distribution:
        """Return the distribution of actions: outputs are continuous actions, the largest one is a discrete one."""
        found = for_space(row_space(action_space), box="deterministic")
        if isinstance(found, Product):
            return replace(found, parts=tuple(map(_unbounded, found.parts)))
        return _unbounded(found)

    def make_exploration(self) -> Exploration:
        """Return that the best known action is chosen: what is tried is parameters."""
        return NoExploration(StochasticSampling(self.distribution))

    def loss(self, l2_coeff: float = 0.0) -> Loss:
        """Return the loss whose gradient is the way downhill: -sum(ascent theta) + l2 / 2 sum(theta^2)."""

        def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
            ascent = module.table.views(batch[ASCENT])
            total: Any = 0.0
            for name, parameter in parameters.items():
                total = total - nn.sum(parameter * nn.constant(ascent[name]))
                if l2_coeff:
                    total = total + 0.5 * l2_coeff * nn.sum(nn.square(parameter))
            return total, {}

        return loss

    def broadcast(self) -> None:
        """Do nothing: each generation brings the parameters along."""

    def cleanup(self) -> None:
        """End all processes."""
        self.population.close()
        super().cleanup()

    # -- an iteration -------------------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """Return how many updates there were: directions are others in each generation."""
        return self.learner.version

    def training_step(self) -> Metrics:
        """Play a generation, and take one step."""
        with self.timed("sample"):
            pairs = self.play_generation()
        with self.timed("learn"):
            before = self.learner.weights.copy()
            ascent = self.ascent(pairs)
            metrics = self.learner.update(Batch({ASCENT: ascent}), self.env_steps_sampled)
            after = self.learner.weights
        self._count(pairs)
        norm, change = float(np.linalg.norm(after)), float(np.linalg.norm(after - before))
        self._info = {
            "weights_norm": norm,
            "grad_norm": float(np.linalg.norm(ascent)),
            "update_ratio": change / norm if norm else float("nan"),
        }
        return {
            **metrics,
            "disturbed_return_mean": float(pairs.returns.mean()),
            "disturbed_return_max": float(pairs.returns.max()),
        }

    def play(self, first: int, count: int) -> Outcomes:
        """Play the trials of some directions of this generation: of each its two sides, and of some the middle."""
        trials = []
        for index in range(first, first + count):
            trials += [Trial(index, 1), Trial(index, -1)]
            if self.directions.is_also_undisturbed(self.generation, index, self.config.eval_prob):
                trials.append(Trial(index, 0))
        return self.population.play(trials, self.learner.weights, self.generation, self.runners.statistics)

    def weighted_sum(self, weights: Sequence[tuple[int, float]]) -> Array:
        """Return the sum of directions of this generation [size], float64, by their numbers and weights."""
        total = np.zeros(self.learner.module.table.size)
        for index, weight in weights:
            if weight:
                total += weight * self.directions.direction(self.generation, index)
        return total

    def _count(self, pairs: Pairs) -> None:
        """Count steps, report undisturbed episodes, and let the filter learn of all that was observed."""
        outcomes = pairs.outcomes
        steps = int(outcomes.lengths.sum())
        self.env_steps_sampled += steps
        self.env_steps_trained += steps
        self.trials_played += len(outcomes.index)
        columns = (outcomes.index, outcomes.returns, outcomes.lengths)
        for index, total, length in zip(*(column[pairs.undisturbed] for column in columns), strict=True):
            self.episodes.add([EpisodeSummary(self.env_steps_sampled, int(index), float(total), int(length))])
        if self.config.observation_filter in FILTERS:
            learned = with_learned(self.runners.statistics, [{FILTER: outcomes.moments}])
            self.runners.set_statistics(learned)

    def _result(self, metrics: Metrics, began: float, sampled_before: int) -> ResultTree:
        """Return the result: returns of the last undisturbed episodes, counts of all."""
        played, self._played_before = self.trials_played - self._played_before, self.trials_played
        counts = {"episodes_this_iter": played, "episodes_total": self.trials_played}
        return merged(
            super()._result(metrics, began, sampled_before),
            counts,
            {"env_runners": {"num_episodes": played, "num_episodes_lifetime": self.trials_played}},
            {"info": {**self._info, "episodes_this_iter": played, "episodes_so_far": self.trials_played}},
            {"num_healthy_workers": self.population.num_healthy_players},
        )

    _played_before = 0

    def own_state(self) -> dict[str, Any]:
        """Return how many episodes there were."""
        return {"trials_played": self.trials_played}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        self.trials_played = self._played_before = int(state["trials_played"])


def pairs_of(outcomes: Outcomes) -> Pairs:
    """Return outcomes as returns of pairs, in the order of their directions."""
    sides = [outcomes.returns[outcomes.side == side] for side in (1, -1)]
    return Pairs(np.stack(sides, axis=1), outcomes)


def _unbounded(distribution: Distribution) -> Distribution:
    """Return the distribution without bounds: what is beyond is cut off by the connector to the environment."""
    return replace(distribution, bounds=None) if isinstance(distribution, Deterministic) else distribution
