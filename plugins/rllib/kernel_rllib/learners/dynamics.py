"""Models of an environment: an ensemble that is fitted to transitions, and predicts what is observed next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.learners.learner import Learner, Loss, Metrics, Objective
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.modules.transition_ensemble import CHANGES, TransitionEnsemble
from kernel_rllib.nn.backend import Backend
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.schedules import schedule

PERSISTENCE = 0.95
"""How much of the rolling mean of validation errors an epoch keeps."""


@dataclass(frozen=True)
class DynamicsSettings:
    """The settings of an ensemble, under RLlib's names.

    Attributes:
        ensemble_size: The number of models.
        fcnet_hiddens: The widths of the hidden layers of each.
        lr: The learning rate of Adam.
        train_epochs: The most passes over the transitions for one fit.
        batch_size: The transitions of a step of the optimizer, of each model.
        valid_split_ratio: The share of transitions by which is seen when to stop.
        normalize_data: Whether models see observations and actions with mean 0 and deviation 1.
    """

    ensemble_size: int = 5
    fcnet_hiddens: tuple[int, ...] = (512, 512, 512)
    lr: float = 1e-3
    train_epochs: int = 500
    batch_size: int = 500
    valid_split_ratio: float = 0.2
    normalize_data: bool = True


@dataclass
class Scale:
    """The means and deviations of what models see and predict, each [width]."""

    mean: dict[str, Array] = field(default_factory=dict)
    deviation: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, arrays: Mapping[str, Array], fixed: frozenset[str]) -> Scale:
        """Return those of some arrays [N, width]; of those in `fixed`, 0 and 1."""
        made = cls()
        for name, array in arrays.items():
            numbers = array.astype(np.float64)
            made.mean[name] = np.zeros(array.shape[1]) if name in fixed else numbers.mean(axis=0)
            made.deviation[name] = np.ones(array.shape[1]) if name in fixed else np.maximum(numbers.std(axis=0), 1e-6)
        return made

    def __call__(self, name: str, array: Array) -> Array:
        """Return numbers as multiples of the deviation, from the mean on."""
        found: Array = ((array - self.mean[name]) / self.deviation[name]).astype(np.float32)
        return found

    def back(self, name: str, array: Array) -> Array:
        """Return the numbers that `__call__` made these of."""
        found: Array = array * self.deviation[name] + self.mean[name]
        return found


class Dynamics:
    """Models that learn together, each from the transitions in an order of its own."""

    def __init__(
        self, settings: DynamicsSettings, observations: int, actions: int, backend: Backend, stream: np.random.Generator
    ) -> None:
        """Begin with random models.

        Args:
            settings: The settings by which models are built, and fitted.
            observations: The width of observations.
            actions: The width of actions.
            backend: The backend, which differentiates.
            stream: The generator of random numbers that parameters are drawn from.
        """
        self.settings = settings
        self.module = TransitionEnsemble(
            observations, actions, size=settings.ensemble_size, hidden=settings.fcnet_hiddens
        )
        objective = Objective(dynamics_loss(), schedule(settings.lr, "dynamics_model lr"))
        self.learner = Learner(self.module, backend, {"dynamics": objective}, stream)
        self.scale: Scale | None = None
        """The scale of the transitions of the last fit; None before the first."""

    def fit(self, transitions: Mapping[str, Array], stream: np.random.Generator) -> Metrics:
        """Fit all models, until their mean error on transitions that they don't learn from has stopped to fall.

        As in RLlib, the rolling mean of this error decides: its fall is over when an epoch lets it rise.

        Args:
            transitions: `obs`, `actions` and `new_obs`, each [N, width].
            stream: Says which transitions are kept for validation, and in which order models see the others.
        """
        rows = self._scaled(transitions)
        order = stream.permutation(len(rows[CHANGES]))
        kept = int(len(order) * self.settings.valid_split_ratio)
        valid, train = order[:kept], order[kept:]
        size, models = min(self.settings.batch_size, len(train)), self.settings.ensemble_size
        rolling, before, epoch, metrics = np.inf, np.inf, 0, {}
        for epoch in range(1, self.settings.train_epochs + 1):
            orders = np.stack([stream.permutation(train) for _ in range(models)])
            for start in range(0, len(train) - size + 1, size):
                chosen = orders[:, start : start + size]
                metrics = self.learner.update(Batch({name: column[chosen] for name, column in rows.items()}))
            if not kept:
                continue
            error = self.error(rows, valid)
            rolling = 1.5 * error if epoch == 1 else PERSISTENCE * rolling + (1 - PERSISTENCE) * error
            if rolling > before:
                break
            before = rolling
        told = {"dynamics_loss": metrics.get("dynamics_loss", float("nan")), "dynamics_epochs": epoch}
        return {**told, **({"dynamics_validation_loss": self.error(rows, valid)} if kept else {})}

    def error(self, rows: Mapping[str, Array], chosen: Array) -> float:
        """Return the mean squared error of all models, in deviations of changes, for some scaled rows."""
        given = {name: column[chosen] for name, column in rows.items()}
        found = self.learner.evaluate(lambda nn, p: self.module.train(nn, p, given)[CHANGES])
        return float(np.square(np.asarray(found) - given[CHANGES]).mean())

    def predict(self, obs: Array, actions: Array) -> Array:
        """Return what each model expects to be observed next [E, N, S], for obs [E, N, S] and actions [E, N, A]."""
        scale = self.scale
        assert scale is not None, "fit was not called"
        given = {columns.OBS: scale(columns.OBS, obs), columns.ACTIONS: scale(columns.ACTIONS, actions)}
        found = self.learner.evaluate(lambda nn, p: self.module.train(nn, p, given)[CHANGES])
        after: Array = (obs + scale.back(CHANGES, np.asarray(found))).astype(np.float32)
        return after

    def _scaled(self, transitions: Mapping[str, Array]) -> dict[str, Array]:
        """Return scaled rows of transitions, and keep their scale."""
        obs, actions = transitions[columns.OBS], transitions[columns.ACTIONS]
        arrays = {columns.OBS: obs, columns.ACTIONS: actions, CHANGES: transitions[columns.NEXT_OBS] - obs}
        self.scale = Scale.of(arrays, frozenset(() if self.settings.normalize_data else arrays))
        return {name: self.scale(name, array) for name, array in arrays.items()}

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on elsewhere."""
        scale = self.scale or Scale()
        return {"learner": self.learner.state(), "mean": dict(scale.mean), "deviation": dict(scale.deviation)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self.learner.set_state(state["learner"])
        mean, deviation = dict(state.get("mean", {})), dict(state.get("deviation", {}))
        self.scale = Scale(mean, deviation) if mean else None


def dynamics_loss() -> Loss:
    """Return the sum, over models, of the mean squared error of the changes that they predict."""

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
        errors = nn.square(module.train(nn, parameters, batch)[CHANGES] - nn.constant(batch[CHANGES]))
        mean = nn.mean(errors)
        return mean * errors.shape[0], {"dynamics_loss": mean}

    return loss
