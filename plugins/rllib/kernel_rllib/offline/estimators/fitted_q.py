"""Fitted Q evaluation (Le, Voloshin and Yue 2019, arXiv 1911.06854, algorithm 3).

A network learns what actions are worth where a policy goes on after them: its values are fitted to those of one step,
    y = r + gamma sum_a pi(a|s') Q'(s', a),
in which Q' are the values of before. No probability of what was recorded is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import ConfigError, DataError
from kernel_rllib.learners.learner import Learner, Objective
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.modules.q_network import QNetwork, QNetworkOptions
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.philox import stream
from kernel_rllib.nn.schedules import ConstantSchedule
from kernel_rllib.offline.estimators.batch_estimator import number_of_actions

TARGETS = "targets"
OF_MODELS = ("fcnet_hiddens", "fcnet_activation")
OTHER_NAMES = {
    "delta": "min_loss_threshold", "batch_size": "minibatch_size", "tau": "polyak_coef", "model": "model_config",
}  # fmt: skip
"""The names of settings in RLlib 1.x and 2.0."""


class FittedQEvaluation:
    """Values of the actions of a policy, learned from steps of any other. Users know it as `FQETorchModel`."""

    def __init__(
        self,
        policy: Any,
        gamma: float,
        model_config: Mapping[str, Any] | None = None,
        n_iters: int = 1,
        lr: float = 1e-3,
        min_loss_threshold: float = 1e-4,
        clip_grad_norm: float = 100.0,
        minibatch_size: int | None = None,
        polyak_coef: float = 1.0,
        seed: int = 0,
        **older: Any,
    ) -> None:
        """Begin with values that are near zero.

        Args:
            policy: The policy: `action_space`, and `compute_log_likelihoods(actions, obs_batch)`.
            gamma: The discount factor, by which a reward counts less for each step that it comes later.
            model_config: `fcnet_hiddens`, the widths of hidden layers, and `fcnet_activation`; [32, 32] and "relu".
            n_iters: The number of times that `train` goes through its batch.
            lr: The learning rate, of Adam.
            min_loss_threshold: `train` ends when the mean loss of a round is below this.
            clip_grad_norm: The bound of the gradient's length.
            minibatch_size: The number of steps of an update; None: all of the batch.
            polyak_coef: The share by which old values move to new ones after each round; 1: all the way.
            seed: The seed of the first values and of the orders of steps.
            older: The same by older names: `delta`, `batch_size`, `tau`, `model`.

        Raises:
            ConfigError: If actions are not discrete, or a setting is none.
        """
        self.policy, self.gamma = policy, gamma
        self.actions = number_of_actions(policy, "fitted Q evaluation")
        given: dict[str, Any] = {
            "model_config": model_config, "n_iters": n_iters, "min_loss_threshold": min_loss_threshold,
            "minibatch_size": minibatch_size, "polyak_coef": polyak_coef,
        }  # fmt: skip
        for name, value in older.items():
            if name not in OTHER_NAMES:
                known = [*given, "lr", "clip_grad_norm", "seed", *OTHER_NAMES]
                raise ConfigError(
                    f"fitted Q evaluation has no setting {name!r}{did_you_mean(name, known)}: it has {', '.join(known)}"
                )
            given[OTHER_NAMES[name]] = value
        self.n_iters, self.threshold = int(given["n_iters"]), float(given["min_loss_threshold"])
        self.minibatch_size, self.polyak = given["minibatch_size"], float(given["polyak_coef"])
        self._options = _options(given["model_config"] or {})
        self._objective = Objective(_loss, ConstantSchedule(lr), clip=clip_grad_norm)
        self._seed, self._orders = seed, stream(seed, "fitted-q", "orders")
        self._learner: Learner | None = None
        self._before: Array | None = None

    def train(self, batch: Batch) -> float:
        """Fit the values to a batch, and return the mean loss of the last round.

        Args:
            batch: Steps with `obs`, `actions`, `rewards`, `new_obs`, and `terminateds` or `dones`.

        Raises:
            DataError: If a column is missing.
        """
        ends = columns.TERMINATEDS if columns.TERMINATEDS in batch else columns.DONES
        missing = [
            name
            for name in (columns.OBS, columns.ACTIONS, columns.REWARDS, columns.NEXT_OBS, ends)
            if name not in batch
        ]
        if missing:
            raise DataError(
                f"fitted Q evaluation needs the columns {', '.join(missing)}, and the batch has "
                f"{', '.join(sorted(batch))}: record them"
            )
        learner = self._made(batch[columns.OBS])
        # What the policy would do does not change meanwhile.
        shares = (1.0 - batch[ends])[:, None] * self.probabilities(batch[columns.NEXT_OBS])
        kept = batch.only([columns.OBS, columns.ACTIONS, columns.REWARDS, columns.NEXT_OBS])
        kept["shares"] = shares
        size, mean = min(self.minibatch_size or batch.count, batch.count), 0.0
        for _ in range(self.n_iters):
            losses = []
            order = self._orders.permutation(batch.count)
            for start in range(0, batch.count, size):
                part = kept.take(order[start : start + size])
                after = self._values(part[columns.NEXT_OBS], self._before)
                targets = part[columns.REWARDS] + self.gamma * (part["shares"] * after).sum(axis=1)
                part[TARGETS] = targets.astype(np.float32)
                losses.append(float(learner.update(part.only([columns.OBS, columns.ACTIONS, TARGETS]))["loss"]))
            assert self._before is not None
            self._before += self.polyak * (learner.weights - self._before)
            mean = float(np.mean(losses))
            if mean < self.threshold:
                break
        return mean

    def estimate_q(self, batch: Batch) -> Array:
        """Return what the actions of a batch are worth [N], in float64."""
        values = self._values(batch[columns.OBS])
        index = np.asarray(batch[columns.ACTIONS], np.int64).reshape(-1, 1)
        found: Array = np.take_along_axis(values, index, axis=1)[:, 0]
        return found

    def estimate_v(self, batch: Batch) -> Array:
        """Return what the observations of a batch are worth [N] where the policy acts, in float64."""
        rows = batch[columns.OBS]
        found: Array = (self.probabilities(rows) * self._values(rows)).sum(axis=1)
        return found

    def probabilities(self, observations: Array) -> Array:
        """Return how likely the policy does each action [N, A], in float64."""
        count = len(observations)
        logs = [
            np.asarray(self.policy.compute_log_likelihoods(np.full(count, action), observations), np.float64)
            for action in range(self.actions)
        ]
        found: Array = np.exp(np.stack(logs, axis=1))
        return found

    def _values(self, observations: Array, vector: Array | None = None) -> Array:
        """Return the values of all actions [N, A], with the parameters of now or those of `vector`."""
        learner, rows = self._made(observations), np.asarray(observations, np.float32)

        def values(nn: Ops, parameters: Parameters) -> Any:
            return learner.module.explore(nn, parameters, {columns.OBS: rows})[columns.Q_VALUES]

        return np.asarray(learner.evaluate(values, vector), np.float64)

    def _made(self, observations: Array) -> Learner:
        """Return the learner, which is made for the first observations.

        Raises:
            ConfigError: If they are images.
        """
        if self._learner is None:
            if observations.ndim != 2:
                raise ConfigError(
                    f"fitted Q evaluation is for observations that are rows of numbers, and these are of the shape "
                    f"{list(observations.shape[1:])}: give q_model_config a type of your own"
                )
            module = QNetwork(observations.shape[1], self.actions, self._options)
            drawn = stream(self._seed, "fitted-q", "parameters")
            self._learner = Learner(module, NumpyBackend(), {"q": self._objective}, drawn)
            self._before = self._learner.weights.copy()
        return self._learner


def _loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
    """Return the mean squared difference between values and targets."""
    values = module.train(nn, parameters, batch)[columns.Q_VALUES]
    index = np.asarray(batch[columns.ACTIONS], np.int64).reshape(-1, 1)
    taken = nn.squeeze(nn.take_along(values, index, axis=1), 1)
    loss = nn.mean(nn.square(taken - nn.constant(batch[TARGETS])))
    return loss, {"loss": loss}


def _options(model: Mapping[str, Any]) -> QNetworkOptions:
    wrong = [name for name in model if name not in OF_MODELS and name != "vf_share_layers"]
    if wrong:
        raise ConfigError(
            f"the model of fitted Q evaluation has no {wrong[0]!r}{did_you_mean(wrong[0], OF_MODELS)}: it has "
            f"{' and '.join(OF_MODELS)}"
        )
    hidden = tuple(int(width) for width in model.get("fcnet_hiddens", (32, 32)))
    return QNetworkOptions(hidden=hidden, activation=model.get("fcnet_activation", "relu"), dueling=False)
