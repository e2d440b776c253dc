"""Several independent choices, each one of several: for MultiDiscrete and for Boxes of integers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kernel_rllib.distributions.categorical import action_index, divergence, draw, entropy
from kernel_rllib.distributions.distribution import Distribution, Noise, Numbers

if TYPE_CHECKING:
    from kernel_rllib.nn.ops import Array, Ops


class Block(NamedTuple):
    """Choices beside each other of as many entries each: they are worked out at once."""

    size: int
    """Entries of each choice."""
    choices: slice
    """The choices, as columns of the actions."""
    entries: slice
    """Their columns of the inputs."""

    @property
    def width(self) -> int:
        """The number of choices."""
        return int(self.choices.stop - self.choices.start)


@dataclass(frozen=True)
class MultiCategorical(Distribution):
    """Independent choices, one of `sizes[k]` each, numbered from `starts[k]` (0 if not given). Actions: int64 [N, k].

    Inputs are the logits of the first choice, then those of the second, and so on.
    """

    sizes: tuple[int, ...]
    starts: tuple[int, ...] = ()

    discrete = True

    @property
    def parameter_size(self) -> int:
        return sum(self.sizes)

    @property
    def action_size(self) -> int:
        return len(self.sizes)

    @property
    def noise(self) -> Noise:
        return Noise("uniform", len(self.sizes))

    def sample(self, nn: Ops, inputs: Array, noise: Array) -> Numbers:
        return self._draw(nn.to_numpy(inputs), nn.to_numpy(noise))[0]

    def sample_and_log_prob(self, nn: Ops, inputs: Array, noise: Array) -> tuple[Numbers, Array]:
        if type(inputs) is np.ndarray:
            return self._draw(inputs, noise)
        return super().sample_and_log_prob(nn, inputs, noise)

    def mode(self, nn: Ops, inputs: Array) -> Numbers:
        return self._joined([logits.argmax(2) for _, logits in self._logits(nn, nn.to_numpy(inputs))])

    def log_prob(self, nn: Ops, inputs: Array, actions: Array) -> Array:
        total = None
        for block, logits in self._logits(nn, inputs):
            index = action_index(nn, actions[:, block.choices], block.size, self.starts[block.choices])
            chosen = nn.take_along(nn.log_softmax(logits, 2), index[:, :, None], 2)[:, :, 0]
            total = _plus(total, nn.sum(chosen, 1))
        return total

    def entropy(self, nn: Ops, inputs: Array) -> Array:
        total = None
        for _, logits in self._logits(nn, inputs):
            total = _plus(total, nn.sum(entropy(nn, logits), 1))
        return total

    def kl(self, nn: Ops, inputs: Array, other_inputs: Array) -> Array:
        total = None
        pairs = zip(self._logits(nn, inputs), self._logits(nn, other_inputs), strict=True)
        for (_, logits), (_, other_logits) in pairs:
            total = _plus(total, nn.sum(divergence(nn, logits, other_logits), 1))
        return total

    @cached_property
    def _blocks(self) -> tuple[Block, ...]:
        blocks, choice, entry = [], 0, 0
        for size, run in groupby(self.sizes):
            count = len(list(run))
            blocks.append(Block(size, slice(choice, choice + count), slice(entry, entry + count * size)))
            choice, entry = choice + count, entry + count * size
        return tuple(blocks)

    @cached_property
    def _start(self) -> Numbers:
        return np.array(self.starts, np.int64)

    def _logits(self, nn: Ops, inputs: Array) -> Iterator[tuple[Block, Array]]:
        """Yield the blocks, each with its logits [N, choices, entries]."""
        for block in self._blocks:
            columns = inputs if len(self._blocks) == 1 else inputs[:, block.entries]
            yield block, nn.reshape(columns, (inputs.shape[0], block.width, block.size))

    def _draw(self, inputs: Numbers, noise: Numbers) -> tuple[Numbers, Numbers]:
        rows, indices = len(inputs), []
        total = None
        for block in self._blocks:
            logits = inputs[:, block.entries].reshape(rows * block.width, block.size)
            index, log_probs = draw(logits, noise[:, block.choices].reshape(-1, 1))
            indices.append(index.reshape(rows, block.width))
            total = _plus(total, log_probs.reshape(rows, block.width).sum(1))
        assert total is not None, "there is no choice"
        return self._joined(indices), total

    def _joined(self, indices: list[Numbers]) -> Numbers:
        index = indices[0] if len(indices) == 1 else np.concatenate(indices, 1)
        return index + self._start if self.starts else index


def _plus(total: Array, more: Array) -> Array:
    return more if total is None else total + more
