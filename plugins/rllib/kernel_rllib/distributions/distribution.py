"""The contract of a distribution of actions with modules, samplers and losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Self

    from kernel_rllib.nn.ops import Array, Ops

Numbers = NDArray[Any]
"""A plain array."""


@dataclass(frozen=True)
class Noise:
    """The random numbers that one draw of an action takes: drawn elsewhere, so that a draw is a pure function."""

    kind: Literal["uniform", "normal"]
    """Uniform from 0 (included) to 1 (not included), or normal with mean 0 and variance 1."""
    width: int
    """The count of numbers for each row."""


class Distribution(ABC):
    """A distribution of actions, given by `inputs` [N, parameter_size], which are outputs of a module.

    It holds the numbers of an action space and nothing else: one object serves all rows, backends and threads.

    `nn` is the backend that `inputs` are of. With plain arrays all functions give plain arrays. `log_prob`, `entropy`
    and `kl` sum over the components of an action, and give one number a row.
    """

    @property
    def discrete(self) -> bool:
        """Whether actions are integers. They are plain arrays in every backend, as no gradient goes through them."""
        return False

    @property
    def reparameterised(self) -> bool:
        """Whether a sampled action has a gradient by the inputs, in a backend that makes gradients."""
        return False

    @property
    @abstractmethod
    def parameter_size(self) -> int:
        """The number of inputs for each row."""

    @property
    @abstractmethod
    def action_size(self) -> int:
        """The number of numbers in an action; if it is 1 and `discrete`, actions may be of shape [N]."""

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """The random numbers that `sample` takes for each row."""

    @property
    def free_size(self) -> int:
        """The number of inputs, the last ones, that are parameters of the module and depend on no observation."""
        return 0

    @property
    def learns_in(self) -> str | None:
        """The name of the one backend that its functions have gradients in; None where any will do."""
        return None

    def with_module(self, module: Any) -> Self:
        """Return this distribution for the outputs of a module; by default itself, as few look at the module."""
        return self

    @abstractmethod
    def sample(self, nn: Ops, inputs: Array, noise: Array) -> Array:
        """Return the actions that the random numbers `noise` [N, noise.width], plain or of the backend, stand for."""

    @abstractmethod
    def mode(self, nn: Ops, inputs: Array) -> Array:
        """Return the action to take where nothing is explored: the likeliest, or what a class says instead."""

    @abstractmethod
    def log_prob(self, nn: Ops, inputs: Array, actions: Array) -> Array:
        """Return the logarithm [N] of the probability, or of the density, of actions."""

    @abstractmethod
    def entropy(self, nn: Ops, inputs: Array) -> Array:
        """Return the entropy [N] in nats; of a density it may be negative."""

    def log_prob_and_entropy(self, nn: Ops, inputs: Array, actions: Array) -> tuple[Array, Array]:
        """Return the `log_prob` of actions, and the `entropy`; for some, they cost less together."""
        return self.log_prob(nn, inputs, actions), self.entropy(nn, inputs)

    @abstractmethod
    def kl(self, nn: Ops, inputs: Array, other_inputs: Array) -> Array:
        """Return the Kullback-Leibler divergence [N], in nats, from this distribution to that of other inputs.

        It is the mean under `inputs` of log p(inputs) - log p(other_inputs).
        """

    def sample_and_log_prob(self, nn: Ops, inputs: Array, noise: Array) -> tuple[Array, Array]:
        """Return `sample` and the `log_prob` of it; in one go it costs less, and for some it is more exact."""
        actions = self.sample(nn, inputs, noise)
        return actions, self.log_prob(nn, inputs, actions)


def open_unit(uniforms: Numbers) -> Numbers:
    """Return uniform numbers as float64 that are neither 0 nor 1, for functions that are infinite there."""
    half_step = 2.0**-25  # of the grid that float32 uniforms are on
    return np.clip(uniforms.astype(np.float64), half_step, 1 - half_step)


def constant(nn: Ops, numbers: tuple[float, ...], like: Array) -> Array:
    """Return numbers as a constant of a backend, of the dtype of another value of it."""
    return nn.constant(_array(numbers, numpy_dtype(like)))


def numpy_dtype(value: Array) -> np.dtype[Any]:
    """Return the dtype of a value of any backend, as numpy's: float32 for what numpy has not, such as bfloat16."""
    dtype = value.dtype
    if isinstance(dtype, np.dtype):
        return dtype
    return np.dtype(np.float64 if str(dtype) == "torch.float64" else np.float32)


@lru_cache(maxsize=256)
def _array(numbers: tuple[float, ...], dtype: np.dtype[Any]) -> Numbers:
    array = np.array(numbers, dtype)
    array.setflags(write=False)
    return array
