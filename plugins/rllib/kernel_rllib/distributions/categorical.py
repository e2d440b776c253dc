"""One of several actions, with probabilities that are the softmax of the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from kernel_rllib.distributions.distribution import Distribution, Noise, Numbers
from kernel_rllib.errors import DataError
from kernel_rllib.nn.softmaxes import SMALLEST_LOG_PROBABILITY

if TYPE_CHECKING:
    from kernel_rllib.nn.ops import Array, Ops

BELOW_ONE = 1 - 2.0**-22
"""Keeps a uniform number times a sum below the sum, however float32 rounds."""


@dataclass(frozen=True)
class Categorical(Distribution):
    """One of `size` actions, numbered from `start`. Actions are int64 [N].

    Inputs are logits. An input of minus infinity, or of the lowest float, is an action that is never taken; a row must
    have one that may be.
    """

    size: int
    start: int = 0

    discrete = True

    @property
    def parameter_size(self) -> int:
        return self.size

    @property
    def action_size(self) -> int:
        return 1

    @property
    def noise(self) -> Noise:
        return Noise("uniform", 1)

    def sample(self, nn: Ops, inputs: Array, noise: Array) -> Numbers:
        return self._numbered(draw(nn.to_numpy(inputs), nn.to_numpy(noise))[0])

    def sample_and_log_prob(self, nn: Ops, inputs: Array, noise: Array) -> tuple[Numbers, Array]:
        if type(inputs) is np.ndarray:
            index, log_probs = draw(inputs, noise)
            return self._numbered(index), log_probs
        return super().sample_and_log_prob(nn, inputs, noise)

    def mode(self, nn: Ops, inputs: Array) -> Numbers:
        return self._numbered(nn.to_numpy(inputs).argmax(1))

    def log_prob(self, nn: Ops, inputs: Array, actions: Array) -> Array:
        return nn.log_softmax_at(inputs, self._index(nn, actions))

    def entropy(self, nn: Ops, inputs: Array) -> Array:
        return entropy(nn, inputs)

    def log_prob_and_entropy(self, nn: Ops, inputs: Array, actions: Array) -> tuple[Array, Array]:
        own = type(self)
        if own.log_prob is Categorical.log_prob and own.entropy is Categorical.entropy:
            return nn.log_softmax_at_and_entropy(inputs, self._index(nn, actions))
        return super().log_prob_and_entropy(nn, inputs, actions)  # A user's own class may define one of them.

    def kl(self, nn: Ops, inputs: Array, other_inputs: Array) -> Array:
        return divergence(nn, inputs, other_inputs)

    def probabilities(self, nn: Ops, inputs: Array) -> Array:
        """Return the probabilities [N, size] of all actions."""
        return nn.softmax(inputs, 1)

    def log_probabilities(self, nn: Ops, inputs: Array) -> Array:
        """Return the logarithms [N, size] of the probabilities of all actions."""
        return nn.log_softmax(inputs, 1)

    def _index(self, nn: Ops, actions: Array) -> Array:
        return action_index(nn, actions, self.size, (self.start,) if self.start else ())

    def _numbered(self, index: Numbers) -> Numbers:
        return index + self.start if self.start else index


def draw(logits: Numbers, uniforms: Numbers) -> tuple[Numbers, Numbers]:
    """Return which entries [N] of logits [N, size] uniform numbers [N, 1] stand for, and their log-probabilities [N].

    It is the first entry up to which the probabilities sum to more than the uniform number: of probability 0 it never
    is. These eleven calls are most of what an action costs, so they go to numpy directly.
    """
    shifted = logits - np.maximum.reduce(logits, axis=1, keepdims=True)
    sums = np.add.accumulate(np.exp(shifted), axis=1)
    totals = sums[:, -1:]
    index = (sums > totals * BELOW_ONE * uniforms).argmax(1)
    return index, shifted[row_numbers(len(index)), index] - np.log(totals)[:, 0]


@lru_cache(maxsize=64)
def row_numbers(count: int) -> Numbers:
    """Return 0 to count - 1: with a column for each row, they pick one entry of each."""
    rows = np.arange(count)
    rows.setflags(write=False)
    return rows


def action_index(nn: Ops, actions: Array, size: int, starts: tuple[int, ...]) -> Array:
    """Return where in the logits actions [N] or [N, k] are, less `starts` if there are any, as int64.

    Raises:
        DataError: one of them is not an action (of tensors of torch this is not looked at: the device would have to
            be waited for).
    """
    first = starts[0] if len(starts) == 1 else np.array(starts, np.int64)
    if hasattr(actions, "long"):  # a tensor of torch
        return actions.long() - nn.constant(first) if starts else actions.long()
    given = np.asarray(nn.to_numpy(actions))
    index = given.astype(np.int64, copy=False)
    if starts:
        index = index - first
    if index.size and index.view(np.uint64).max() >= size:  # below 0 is then far above
        lowest, highest = min(starts or (0,)), max(starts or (0,)) + size - 1
        raise DataError(f"actions are {given.min()} to {given.max()}: {lowest} to {highest} were expected")
    return nn.constant(index)


def entropy(nn: Ops, logits: Array) -> Array:
    """Return the entropy of the softmax of the last axis."""
    return nn.softmax_entropy(logits)


def divergence(nn: Ops, logits: Array, other_logits: Array) -> Array:
    """Return the Kullback-Leibler divergence of the softmax of the last axis."""
    difference = finite_log_softmax(nn, logits) - finite_log_softmax(nn, other_logits)
    return nn.sum(nn.softmax(logits, -1) * difference, -1)


def finite_log_softmax(nn: Ops, logits: Array) -> Array:
    """Return the log-softmax of the last axis, with a large negative number instead of minus infinity."""
    return nn.maximum(nn.log_softmax(logits, -1), SMALLEST_LOG_PROBABILITY)
