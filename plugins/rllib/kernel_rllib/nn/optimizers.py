"""Optimizers over flat vectors of parameters, in numpy, by torch's rules and with its defaults.

One vector for all parameters makes a step a dozen operations, however many parameters there are. They work in place,
and make no arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.errors import ConfigError, ModuleError

Vector = NDArray[Any]


class Optimizer(Protocol):
    """Changes a vector of parameters by gradients, and remembers what it needs to."""

    def step(self, vector: Any, gradient: Any, learning_rate: float) -> None:
        """Change `vector` [size] in place; `gradient` [size] stays as it is."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of what it remembers, as arrays by name."""

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Remember what `state` returned elsewhere; raise ModuleError where it belongs to another optimizer or size."""


class _NumpyOptimizer:
    """The base of all optimizers in numpy: moments of the size of the vector, a count of steps, and weight decay."""

    def __init__(self, size: int, moments: tuple[str, ...], weight_decay: float, dtype: Any) -> None:
        self.size = size
        self.steps = 0
        self._moments: dict[str, Vector] = {name: np.zeros(size, dtype) for name in moments}
        self._weight_decay = weight_decay
        self._change = np.empty(size, dtype)
        self._decayed = np.empty(size if weight_decay else 0, dtype)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of the moments and the count of steps."""
        return {"steps": np.array(self.steps), **{name: moment.copy() for name, moment in self._moments.items()}}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned elsewhere."""
        expected = {"steps": (), **{name: (self.size,) for name in self._moments}}
        found = {name: np.shape(value) for name, value in state.items()}
        if found != expected:
            raise ModuleError(
                f"the state of {type(self).__name__} consists of {expected} (names and shapes), and was given {found}: "
                "take the state of the same kind of optimizer for the same parameters"
            )
        self.steps = int(state["steps"])
        for name, moment in self._moments.items():
            moment[...] = state[name]

    def _begin(self, vector: Vector, gradient: Vector) -> Vector:
        """Count a step, and return the gradient with weight decay; raise ModuleError for vectors of another size."""
        if vector.shape != (self.size,) or gradient.shape != (self.size,):
            raise ModuleError(
                f"{type(self).__name__} was made for {self.size} parameters, and was given a vector of shape "
                f"{vector.shape} with a gradient of shape {gradient.shape}"
            )
        self.steps += 1
        if not self._weight_decay:
            return gradient
        np.multiply(vector, self._weight_decay, out=self._decayed)
        self._decayed += gradient
        return self._decayed


class Adam(_NumpyOptimizer):
    """Adam (Kingma and Ba 2014, algorithm 1). `weight_decay` is added to the gradient."""

    def __init__(
        self,
        size: int,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__(size, ("mean", "square"), weight_decay, dtype)
        self._betas, self._epsilon, self._decoupled = betas, epsilon, 0.0

    def step(self, vector: Vector, gradient: Vector, learning_rate: float) -> None:
        """Change `vector` in place."""
        gradient = self._begin(vector, gradient)
        (first_beta, second_beta), change = self._betas, self._change
        mean, square = self._moments["mean"], self._moments["square"]
        np.subtract(gradient, mean, out=change)
        change *= 1 - first_beta
        mean += change
        square *= second_beta
        np.multiply(gradient, gradient, out=change)
        change *= 1 - second_beta
        square += change
        # The corrections of both moments are put into epsilon and the size of the step: two operations fewer.
        root = (1 - second_beta**self.steps) ** 0.5
        np.sqrt(square, out=change)
        change += self._epsilon * root
        np.divide(mean, change, out=change)
        change *= learning_rate * root / (1 - first_beta**self.steps)
        if self._decoupled:
            vector *= 1 - learning_rate * self._decoupled
        vector -= change


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2017, algorithm 2)."""

    def __init__(
        self,
        size: int,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__(size, betas, epsilon, 0.0, dtype)
        self._decoupled = weight_decay


class RMSprop(_NumpyOptimizer):
    """RMSprop (Tieleman and Hinton 2012; centered: Graves 2013, equations 38 to 45). `alpha` smooths the squares."""

    def __init__(
        self,
        size: int,
        alpha: float = 0.99,
        epsilon: float = 1e-8,
        momentum: float = 0.0,
        centered: bool = False,
        weight_decay: float = 0.0,
        dtype: Any = np.float32,
    ) -> None:
        moments = ("square", *(("momentum",) if momentum else ()), *(("mean",) if centered else ()))
        super().__init__(size, moments, weight_decay, dtype)
        self._alpha, self._epsilon, self._momentum, self._centered = alpha, epsilon, momentum, centered

    def step(self, vector: Vector, gradient: Vector, learning_rate: float) -> None:
        """Change `vector` in place."""
        gradient = self._begin(vector, gradient)
        square, change = self._moments["square"], self._change
        square *= self._alpha
        np.multiply(gradient, gradient, out=change)
        change *= 1 - self._alpha
        square += change
        if self._centered:
            mean = self._moments["mean"]
            np.subtract(gradient, mean, out=change)
            change *= 1 - self._alpha
            mean += change
            np.multiply(mean, mean, out=change)
            np.subtract(square, change, out=change)
            np.sqrt(change, out=change)
        else:
            np.sqrt(square, out=change)
        change += self._epsilon
        np.divide(gradient, change, out=change)
        if self._momentum:
            velocity = self._moments["momentum"]
            velocity *= self._momentum
            velocity += change
            np.multiply(velocity, learning_rate, out=change)
        else:
            change *= learning_rate
        vector -= change


class SGD(_NumpyOptimizer):
    """Gradient descent, with momentum and Nesterov's variant as torch has them (Sutskever et al. 2013)."""

    def __init__(
        self,
        size: int,
        momentum: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        dtype: Any = np.float32,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ConfigError("nesterov needs a momentum above zero and no dampening")
        super().__init__(size, ("momentum",) if momentum else (), weight_decay, dtype)
        self._momentum, self._dampening, self._nesterov = momentum, dampening, nesterov

    def step(self, vector: Vector, gradient: Vector, learning_rate: float) -> None:
        """Change `vector` in place."""
        gradient, change = self._begin(vector, gradient), self._change
        if self._momentum:
            velocity = self._moments["momentum"]
            velocity *= self._momentum
            # The first gradient begins the momentum undampened.
            np.multiply(gradient, 1 if self.steps == 1 else 1 - self._dampening, out=change)
            velocity += change
            if self._nesterov:
                np.multiply(velocity, self._momentum, out=change)
                change += gradient
                gradient = change
            else:
                gradient = velocity
        np.multiply(gradient, learning_rate, out=change)
        vector -= change


OPTIMIZERS: dict[str, Callable[..., Any]] = {"adam": Adam, "adamw": AdamW, "rmsprop": RMSprop, "sgd": SGD}
"""The optimizers by the names that configurations use."""


def optimizer(name: str, size: int, **settings: Any) -> Optimizer:
    """Return an optimizer of `size` parameters; raise ConfigError where there is none of that name or settings."""
    if name not in OPTIMIZERS:
        raise ConfigError(f"there is no optimizer {name!r}: take one of {', '.join(OPTIMIZERS)}")
    try:
        return OPTIMIZERS[name](size, **settings)  # type: ignore[no-any-return]
    except TypeError as error:
        raise ConfigError(f"the optimizer {name!r} was given {settings}: {error}") from None
