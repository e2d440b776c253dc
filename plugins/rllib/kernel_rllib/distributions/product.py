"""Independent parts, each with a distribution of its own: for Dict and Tuple spaces, nested as they may be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from kernel_rllib.distributions.distribution import Distribution, Noise, Numbers, numpy_dtype, open_unit

if TYPE_CHECKING:
    from kernel_rllib.nn.ops import Array, Ops


@dataclass(frozen=True)
class Product(Distribution):
    """Independent parts. Actions are floats [N, sum of the parts' action sizes]: those of the parts side by side.

    Inputs are those of the parts, side by side. Integers are held as floats, which is exact up to 2^24; `split` makes
    integers of them again.
    """

    parts: tuple[Distribution, ...]

    @property
    def reparameterised(self) -> bool:
        return all(part.reparameterised for part in self.parts)

    @cached_property
    def parameter_size(self) -> int:
        return sum(part.parameter_size for part in self.parts)

    @cached_property
    def action_size(self) -> int:
        return sum(part.action_size for part in self.parts)

    @cached_property
    def noise(self) -> Noise:
        """Normal noise if all parts take it, else uniform noise, of which normal parts get the quantiles."""
        kinds = {part.noise.kind for part in self.parts if part.noise.width}
        return Noise("normal" if kinds == {"normal"} else "uniform", sum(part.noise.width for part in self.parts))

    def sample(self, nn: Ops, inputs: Array, noise: Array) -> Array:
        samples = [
            self._as_columns(nn, part, part.sample(nn, values, numbers), inputs)
            for part, values, numbers in self._with_noise(nn, inputs, noise)
        ]
        return nn.concat(samples, 1)

    def sample_and_log_prob(self, nn: Ops, inputs: Array, noise: Array) -> tuple[Array, Array]:
        columns, log_probs = [], []
        for part, values, numbers in self._with_noise(nn, inputs, noise):
            actions, log_prob = part.sample_and_log_prob(nn, values, numbers)
            columns.append(self._as_columns(nn, part, actions, inputs))
            log_probs.append(log_prob)
        return nn.concat(columns, 1), _total(log_probs)

    def mode(self, nn: Ops, inputs: Array) -> Array:
        pairs = self._with_inputs(inputs)
        modes = [self._as_columns(nn, part, part.mode(nn, values), inputs) for part, values in pairs]
        return nn.concat(modes, 1)

    def log_prob(self, nn: Ops, inputs: Array, actions: Array) -> Array:
        pairs = zip(self._with_inputs(inputs), self._action_columns(actions), strict=True)
        return _total([part.log_prob(nn, values, columns) for (part, values), columns in pairs])

    def entropy(self, nn: Ops, inputs: Array) -> Array:
        return _total([part.entropy(nn, values) for part, values in self._with_inputs(inputs)])

    def kl(self, nn: Ops, inputs: Array, other_inputs: Array) -> Array:
        pairs = zip(self._with_inputs(inputs), self._with_inputs(other_inputs), strict=True)
        return _total([part.kl(nn, values, others) for (part, values), (_, others) in pairs])

    def split(self, actions: Numbers) -> list[Numbers]:
        """Return the actions [N, ...] of each part, in order, as the part itself gives them: integers if discrete."""
        return [
            np.rint(columns).astype(np.int64) if part.discrete else columns
            for part, columns in zip(self.parts, self._action_columns(actions), strict=True)
        ]

    def _with_inputs(self, inputs: Array) -> Iterator[tuple[Distribution, Array]]:
        for part, columns in zip(self.parts, self._inputs, strict=True):
            yield part, inputs[:, columns]

    def _with_noise(self, nn: Ops, inputs: Array, noise: Array) -> Iterator[tuple[Distribution, Array, Array]]:
        kind = self.noise.kind
        for (part, values), columns in zip(self._with_inputs(inputs), self._noise, strict=True):
            numbers = noise[:, columns]
            if part.noise.kind != kind and part.noise.width:
                from scipy.special import ndtri

                quantiles = ndtri(open_unit(nn.to_numpy(numbers)))
                numbers = nn.constant(quantiles.astype(numpy_dtype(inputs)))
            yield part, values, numbers

    def _action_columns(self, actions: Array) -> Iterator[Array]:
        for part, columns in zip(self.parts, self._actions, strict=True):
            single = part.discrete and part.action_size == 1
            yield actions[:, columns.start] if single else actions[:, columns]

    def _as_columns(self, nn: Ops, part: Distribution, actions: Array, inputs: Array) -> Array:
        if part.discrete:  # a plain array in every backend
            return nn.constant(actions.reshape(len(actions), part.action_size).astype(numpy_dtype(inputs)))
        return actions

    @cached_property
    def _inputs(self) -> list[slice]:
        return _slices([part.parameter_size for part in self.parts])

    @cached_property
    def _noise(self) -> list[slice]:
        return _slices([part.noise.width for part in self.parts])

    @cached_property
    def _actions(self) -> list[slice]:
        return _slices([part.action_size for part in self.parts])


def _slices(widths: list[int]) -> list[slice]:
    return [slice(end - width, end) for end, width in zip(accumulate(widths), widths, strict=True)]


def _total(terms: list[Array]) -> Array:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
