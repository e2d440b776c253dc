"""Randomness by name: each purpose has a stream of its own, and each number in it a fixed place.

Philox is a generator by counter: the k-th number is computed from k (Salmon et al., Parallel Random Numbers: As Easy
as 1, 2, 3, 2011). So the noise of a lane is the same whether it is drawn step by step, a fragment at once, or again
after a restart, and it doesn't depend on which process draws it.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

Purpose = int | str
Float32s = NDArray[np.float32]

_PER_BLOCK = 8
"""32-bit numbers that one value of the counter gives."""


def stream(seed: int, *purpose: Purpose) -> np.random.Generator:
    """Return a generator for `purpose`, such as `stream(seed, "learner", 0, "minibatches")`.

    The same words give the same numbers in every process and on every machine; other words give independent ones.
    """
    return np.random.Generator(np.random.Philox(key=_key(seed, purpose)))


def uniforms(seed: int, lane: int, purpose: Purpose, start: int, count: int, width: int) -> Float32s:
    """Return rows `start` to `start + count` of the uniform noise of a lane: [count, width], each in [0, 1).

    A row is the same however a range is cut into pieces. Noise of another `width` is other noise.
    """
    return _uniform(_words(seed, lane, purpose, width, "uniform", start * width, count * width)).reshape(count, width)


def normals(seed: int, lane: int, purpose: Purpose, start: int, count: int, width: int) -> Float32s:
    """Return rows `start` to `start + count` of the standard normal noise of a lane: [count, width].

    A row is the same however a range is cut into pieces. (Box and Muller: A Note on the Generation of Random Normal
    Deviates, 1958: two uniforms make two normals, so that counting holds.)
    """
    first, end = start * width, (start + count) * width
    before = first % 2
    pairs = _words(seed, lane, purpose, width, "normal", first - before, end + end % 2 - first + before).reshape(-1, 2)
    # With all 32 bits the radius reaches 6.7, and is never infinite.
    radius = np.ascontiguousarray(pairs[:, 0]).astype(np.float64)
    radius += 1
    radius *= 2.0**-32
    np.log(radius, out=radius)
    radius *= -2
    np.sqrt(radius, out=radius)
    angle = np.ascontiguousarray(pairs[:, 1]).astype(np.float64)
    angle *= 2 * np.pi / 2**32
    numbers = np.empty(pairs.shape, np.float32)
    numbers[:, 0] = radius * np.cos(angle)
    numbers[:, 1] = radius * np.sin(angle)
    return numbers.reshape(-1)[before : before + count * width].reshape(count, width)


def _key(seed: int, purpose: tuple[Purpose, ...]) -> int:
    """Return a key of 128 bits; Python's own hash differs from process to process."""
    words = [f"{type(word).__name__}:{len(str(word))}:{word}" for word in (int(seed), *purpose)]
    return int.from_bytes(hashlib.blake2b(" ".join(words).encode(), digest_size=16).digest(), "little")


def _words(seed: int, lane: int, purpose: Purpose, width: int, kind: str, start: int, count: int) -> NDArray[np.uint32]:
    """Return `count` 32-bit numbers of a stream, from the one at `start`."""
    block, before = divmod(start, _PER_BLOCK)
    blocks = -(-(before + count) // _PER_BLOCK)
    raw = np.random.Philox(key=_key(seed, (lane, purpose, width, kind)), counter=block).random_raw(4 * blocks)
    return raw.astype("<u8", copy=False).view("<u4")[before : before + count].astype(np.uint32, copy=False)


def _uniform(words: NDArray[np.uint32]) -> Float32s:
    """Return numbers in [0, 1) with the 24 bits that a float32 holds."""
    numbers = (words >> 8).astype(np.float32)
    numbers *= np.float32(2.0**-24)
    return numbers
