"""Choices one after another, each of which may depend on those before it: p(a, b) = p(a) p(b | a)."""

from __future__ import annotations

import math
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np

from kernel_rllib.distributions.categorical import draw
from kernel_rllib.distributions.distribution import Distribution, Noise, Numbers, numpy_dtype
from kernel_rllib.errors import SpaceError

if TYPE_CHECKING:
    from kernel_rllib.nn.ops import Array, Ops


class AutoregressiveCategorical(Distribution):
    """Several choices, where a module gives the logits of each for everything that may have been chosen before.

    Inputs are the logits of the first choice, [K1]; those of the second one for each first choice, [K1, K2]; those of
    the third for each pair, [K1, K2, K3]; and so on, side by side. So all is exact, entropies and divergences too, and
    one forward pass serves for a draw of all parts. It is meant for few parts with few choices.
    """

    def __init__(self, action_space: Any) -> None:
        """Choose for a space: a MultiDiscrete, or a Tuple or Dict of Discrete ones.

        Raises:
            SpaceError: If it is another.
        """
        parts = getattr(action_space, "spaces", None)
        self._is_product = parts is not None
        if parts is not None:
            parts = list(parts.values()) if hasattr(parts, "values") else list(parts)
            sizes = [int(part.n) if hasattr(part, "n") and not part.shape else 0 for part in parts]
        else:
            sizes = [int(size) for size in np.ravel(getattr(action_space, "nvec", ()))]
        if not sizes or not all(sizes):
            raise SpaceError(
                f"the actions are of {action_space}, and AutoregressiveCategorical chooses in a MultiDiscrete, or in a "
                "Tuple or Dict of Discrete spaces, one after another"
            )
        self.sizes = tuple(sizes)
        """How many choices each part has."""
        self._before = tuple(math.prod(self.sizes[:place]) for place in range(len(self.sizes)))
        self._ends: tuple[int, ...] = tuple(accumulate(map(mul, self._before, self.sizes)))

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, AutoregressiveCategorical)
        return same and (self.sizes, self._is_product) == (other.sizes, other._is_product)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.sizes, self._is_product))

    @property
    def discrete(self) -> bool:
        return not self._is_product  # Rows of a Tuple are floats, whatever its parts are.

    @property
    def parameter_size(self) -> int:
        return self._ends[-1]

    @property
    def action_size(self) -> int:
        return len(self.sizes)

    @property
    def noise(self) -> Noise:
        return Noise("uniform", len(self.sizes))

    def sample(self, nn: Ops, inputs: Array, noise: Array) -> Array:
        numbers = nn.to_numpy(noise)
        return self._one_by_one(nn, inputs, lambda logits, part: draw(logits, numbers[:, part : part + 1])[0])

    def mode(self, nn: Ops, inputs: Array) -> Array:
        """Return the likeliest first choice, the likeliest second one after it, and so on."""
        return self._one_by_one(nn, inputs, lambda logits, part: logits.argmax(axis=1))

    def log_prob(self, nn: Ops, inputs: Array, actions: Array) -> Array:
        chosen = np.rint(nn.to_numpy(actions)).astype(np.int64)
        total: Any = 0.0
        for part, logits in enumerate(self._logits(nn, inputs)):
            at = nn.take_along(logits, self._prefix(chosen, part)[:, None, None], axis=1)[:, 0]
            total = total + nn.log_softmax_at(at, chosen[:, part])
        return total

    def entropy(self, nn: Ops, inputs: Array) -> Array:
        return self._expected(nn, inputs, lambda logits, part: nn.softmax_entropy(logits))

    def kl(self, nn: Ops, inputs: Array, other_inputs: Array) -> Array:
        others = self._logits(nn, other_inputs)

        def divergence(logits: Array, part: int) -> Array:
            apart = nn.log_softmax(logits) - nn.log_softmax(others[part])
            return nn.sum(nn.softmax(logits) * apart, axis=-1)

        return self._expected(nn, inputs, divergence)

    def _logits(self, nn: Ops, inputs: Array) -> list[Array]:
        """Return the logits of each part [N, everything before, choices]."""
        begins = (0, *self._ends[:-1])
        return [
            nn.reshape(inputs[:, begin:end], (inputs.shape[0], before, size))
            for begin, end, before, size in zip(begins, self._ends, self._before, self.sizes, strict=True)
        ]

    def _prefix(self, chosen: Numbers, part: int) -> Numbers:
        """Return the number of what was chosen before a part [N]."""
        number = np.zeros(len(chosen), np.int64)
        for earlier in range(part):
            number = number * self.sizes[earlier] + chosen[:, earlier]
        return number

    def _one_by_one(self, nn: Ops, inputs: Array, choose: Any) -> Array:
        """Return actions [N, parts]: each part is chosen by the logits after the choices before it."""
        values = nn.to_numpy(inputs)
        rows, found = np.arange(len(values)), np.zeros((len(values), len(self.sizes)), np.int64)
        begins = (0, *self._ends[:-1])
        for part, (begin, size) in enumerate(zip(begins, self.sizes, strict=True)):
            places = begin + self._prefix(found, part)[:, None] * size + np.arange(size)
            found[:, part] = choose(np.ascontiguousarray(values[rows[:, None], places]), part)
        return nn.constant(found.astype(numpy_dtype(inputs))) if self._is_product else found

    def _expected(self, nn: Ops, inputs: Array, number_of: Any) -> Array:
        """Return the sum over parts of the mean of a number [N, everything before] by how likely that is [N]."""
        likely: Any = nn.constant(np.ones((inputs.shape[0], 1), numpy_dtype(inputs)))
        total: Any = 0.0
        for part, logits in enumerate(self._logits(nn, inputs)):
            total = total + nn.sum(likely * number_of(logits, part), axis=-1)
            following = nn.expand_dims(likely, 2) * nn.softmax(logits)
            likely = nn.reshape(following, (inputs.shape[0], -1))
        return total
