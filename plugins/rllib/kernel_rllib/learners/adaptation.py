"""Steps of adaptation to tasks, and the gradient through them (Finn et al. 2017, arXiv 1703.03400).

A backend has gradients of first order only. The gradient through a step of gradient descent needs products of the
Hessian of the step's loss with vectors, and these are central differences of two gradients in float64: they are right
to about 1e-8, a tenth of what float32 rounds in one gradient. Losses have to be smooth for that: of one with a kink
(such as relu) the differences see the kink now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.nn.backend import Backend, Loss
from kernel_rllib.nn.parameters import ParameterTable

STEP = 2e-7
"""How far parameters are moved to both sides for a difference of gradients, as a distance in all of them."""


LossAt: TypeAlias = Callable[[Array], Loss]
"""Returns the loss of a step, given the parameters [size] that it starts from. There it has to be smooth."""


@dataclass
class TaskLosses:
    """The losses of one task.

    Attributes:
        inner: The loss of each step of adaptation, in order.
        outer: The loss of the adapted parameters.
        beside: Losses that are added to the outer one, each of the parameters before a step; empty for none.
    """

    inner: Sequence[LossAt]
    outer: Loss
    beside: Sequence[Loss] = ()


class Adaptation:
    """Adapts parameters to tasks by steps of gradient descent, and differentiates losses through these steps."""

    def __init__(self, backend: Backend, table: ParameterTable, inner_lr: float, *, second_order: bool = True) -> None:
        """Adapt in a backend.

        Args:
            backend: The backend, which differentiates, in float64.
            table: The parameters.
            inner_lr: The length of a step, as a multiple of the gradient.
            second_order: Whether the outer gradient counts how the steps depend on the parameters. Otherwise it is
                taken as if the steps were constant (section 5.2 of the paper).
        """
        self._backend, self._table = backend, table
        self._inner_lr, self._second_order = inner_lr, second_order
        self._point = backend.vector(np.zeros(table.size))  # One vector, for which the backend keeps its plan.

    def gradient(self, loss: Loss, at: Array) -> tuple[dict[str, Any], Array]:
        """Return the metrics of a loss, and its gradient at some parameters [size], float64."""
        self._point[...] = self._backend.vector(np.asarray(at, np.float64))
        metrics, found = self._backend.gradient(loss, self._point, self._table)
        return metrics, np.array(self._backend.to_numpy(found), np.float64)

    def step(self, loss: Loss, at: Array) -> Array:
        """Return the parameters after one step of adaptation: theta - alpha grad L(theta) (equation 1)."""
        found: Array = at - self._inner_lr * self.gradient(loss, at)[1]
        return found

    def hessian_product(self, loss: Loss, at: Array, vector: Array) -> Array:
        """Return the product of the Hessian of a loss, at some parameters, with a vector [size]."""
        length = float(np.linalg.norm(vector))
        if not length:
            return np.zeros_like(vector)
        distance = STEP / length
        above, below = (self.gradient(loss, at + sign * distance * vector)[1] for sign in (1.0, -1.0))
        found: Array = (above - below) / (2 * distance)
        return found

    def outer_gradient(self, task: TaskLosses, at: Array) -> tuple[dict[str, Any], list[dict[str, Any]], Array]:
        """Return the gradient of a task's outer loss by the parameters before adaptation (algorithm 3, line 10).

        With theta(k + 1) = theta(k) - alpha grad L(k, theta(k)) it is the product, over all steps, of
        (1 - alpha Hessian of L(k) at theta(k)) with grad L(outer, theta(K)). What is beside adds its own gradients.

        Args:
            task: The losses.
            at: The parameters [size].

        Returns:
            What the outer loss reports, what the losses beside report, and the gradient [size] in float64.
        """
        point, steps = np.asarray(at, np.float64), []
        for loss_at in task.inner:
            steps.append((loss_at(point), point))
            point = self.step(*steps[-1])
        metrics, gradient = self.gradient(task.outer, point)
        reports: list[dict[str, Any]] = []
        for number, (loss, before) in reversed([*enumerate(steps)]):
            if self._second_order:
                gradient = gradient - self._inner_lr * self.hessian_product(loss, before, gradient)
            if task.beside:
                reported, own = self.gradient(task.beside[number], before)
                reports.insert(0, reported)
                gradient = gradient + own
        return metrics, reports, gradient
