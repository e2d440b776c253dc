"""Random network distillation: observations are rewarded whose features are not learned yet.

Burda et al. 2018, "Exploration by random network distillation", arXiv 1810.12894.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.moments import Moments, moments_of, no_rows
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.learners.learner import Learner, Loss, Metrics
from kernel_rllib.modules.intrinsic_networks import DISTILLATION_ERRORS, DistillationNetwork
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.returns.gae import gae
from kernel_rllib.training.intrinsic_reward import IntrinsicReward, Streams, flat

FURTHEST = 5.0
"""Normalised observations are cut off at so many standard deviations (section 2.4)."""
_LEAST = 1e-8
_TARGETS = "intrinsic_value_targets"


@dataclass(frozen=True)
class RNDSettings:
    """What stands beside `type` in `exploration_config`, under the names of RLlib.

    Attributes:
        embed_dim: The number of features of an observation.
        distill_net_config: Options of the model that its layers have in place of those of the policy.
        lr: The learning rate of the network, or its schedule over env steps.
        intrinsic_reward_coeff: The factor that makes rewards of errors.
        nonepisodic_returns: True if intrinsic rewards have returns of their own, with values and advantages of their
            own, that go on when an episode ends.
        intrinsic_gamma: The discount of an intrinsic reward that comes one step later, from 0 to 1: in such returns,
            and where rewards are normalised by the deviation of returns.
        intrinsic_lambda: The decay of the advantages of such returns, from 0 to 1, as `lambda` is of the others.
        normalize: True if observations and rewards are normalised by running statistics (section 2.4).
        sub_exploration: The `exploration_config` by which actions are chosen; None for the algorithm's own.
        minibatch_size: The largest number of steps that are learned from at once.
    """

    embed_dim: int = 128
    distill_net_config: Any = None
    lr: Any = 1e-3
    intrinsic_reward_coeff: float = 5e-3
    nonepisodic_returns: bool = False
    intrinsic_gamma: float = 0.99
    intrinsic_lambda: float = 0.95
    normalize: bool = True
    sub_exploration: Any = None
    minibatch_size: int = 256


class RND(IntrinsicReward):
    """Rewards what is observed after a step by how far the learned features are from the fixed ones (section 2.2)."""

    def __init__(self, learner: Learner, stream: Streams, settings: RNDSettings, observation: tuple[int, ...]) -> None:
        """Learn a `DistillationNetwork` with this learner, for observations of this shape."""
        super().__init__(learner, stream, settings.minibatch_size)
        self._settings = settings
        self._observed, self._returned = no_rows(observation), no_rows(())
        self._returns: dict[int, float] = {}

    def rewards_of(self, fragment: Fragment, following: Array) -> Array:
        """Return the errors of features [T, L], over the deviation of their returns, times the coefficient."""
        settings = self._settings
        if settings.normalize:
            self._observed = self._observed.joined(_moments(following, fragment.valid))
        inputs = {columns.NEXT_OBS: flat(self._normalised(following))}
        module = self.learner.module
        errors = self.learner.evaluate(lambda nn, p: module.train(nn, p, inputs)[DISTILLATION_ERRORS])
        found = np.asarray(errors, np.float64).reshape(fragment.shape)
        if settings.normalize:
            self._returned = self._returned.joined(self._moments_of_returns(fragment, found))
            found = found / max(float(self._returned.deviation()), _LEAST)
        return (settings.intrinsic_reward_coeff * found).astype(fragment.columns[columns.REWARDS].dtype)

    def give(self, fragment: Fragment, rewards: Array) -> dict[str, Array]:
        """Add intrinsic rewards to those of the environment; or intrinsic advantages, which go on past ends."""
        found, settings = fragment.columns, self._settings
        if not settings.nonepisodic_returns:
            found[columns.REWARDS] = found[columns.REWARDS] + rewards
            return {}
        values = self._values(found[columns.OBS])
        following = np.concatenate([values[1:], self._values(fragment.last_obs[None])])
        no_ends = np.zeros(fragment.shape, bool)
        advantages, targets = gae(
            rewards, values, following, no_ends, no_ends,
            gamma=settings.intrinsic_gamma, lambda_=settings.intrinsic_lambda, valid=fragment.valid,
        )  # fmt: skip
        found[columns.INTRINSIC_ADVANTAGES] = advantages
        return {_TARGETS: targets}

    def inputs_of(self, columns_of_steps: dict[str, Array]) -> dict[str, Array]:
        """Return the columns of steps, with normalised observations."""
        return {**columns_of_steps, columns.NEXT_OBS: self._normalised(columns_of_steps[columns.NEXT_OBS])}

    def state(self) -> dict[str, Any]:
        """Return parameters, statistics, and the returns that lanes are in."""
        return {
            **super().state(),
            "observed": self._observed.arrays(),
            "returned": self._returned.arrays(),
            "returns": {str(lane): value for lane, value in self._returns.items()},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        super().set_state(dict(state))
        self._observed, self._returned = Moments.of_arrays(state["observed"]), Moments.of_arrays(state["returned"])
        self._returns = {int(lane): float(value) for lane, value in state["returns"].items()}

    def _normalised(self, observations: Array) -> Array:
        if not self._settings.normalize:
            return observations
        away = (observations - self._observed.mean) / np.maximum(self._observed.deviation(), _LEAST)
        return np.asarray(np.clip(away, -FURTHEST, FURTHEST), np.float32)

    def _moments_of_returns(self, fragment: Fragment, errors: Array) -> Moments:
        """Return the moments of running returns, which go on past ends and from fragment to fragment of a lane."""
        lanes = fragment.lanes.tolist()
        now = np.array([self._returns.get(lane, 0.0) for lane in lanes])
        all_returns = np.zeros(errors.shape)
        for t in range(len(errors)):
            made = True if fragment.valid is None else fragment.valid[t]
            now = np.where(made, self._settings.intrinsic_gamma * now + errors[t], now)
            all_returns[t] = now
        self._returns.update(zip(lanes, now.tolist(), strict=True))
        return _moments(all_returns, fragment.valid)

    def _values(self, observations: Array) -> Array:
        """Return the values [T, L] of observations [T, L, ...]."""
        module = cast(DistillationNetwork, self.learner.module)
        found = self.learner.evaluate(lambda nn, p: module.values(nn, p, flat(observations)))
        return np.reshape(found, observations.shape[:2])


def distillation_loss(*, values: bool) -> Loss:
    """Return the mean error of features; with values, plus half their mean squared error."""

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        total = nn.mean(module.train(nn, parameters, batch)[DISTILLATION_ERRORS])
        metrics = {"rnd_loss": total}
        if values:
            assert isinstance(module, DistillationNetwork)
            found = module.values(nn, parameters, batch[columns.OBS])
            metrics["rnd_vf_loss"] = 0.5 * nn.mean(nn.square(found - nn.constant(batch[_TARGETS])))
            total = total + metrics["rnd_vf_loss"]
        return total, metrics

    return loss


def _moments(found: Array, valid: Array | None) -> Moments:
    """Return the moments of the steps [T, L, ...] that were made."""
    rows = flat(found) if valid is None else found[valid]
    return moments_of(rows[:, None]).lane(0) if len(rows) else no_rows(found.shape[2:])
