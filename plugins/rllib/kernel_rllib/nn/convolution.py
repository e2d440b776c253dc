"""Convolutions in numpy, forwards: what a kernel sees at each place becomes a row, and all rows one product.

The rows of one image are one product, always of the same shape. So an image gives the same bits among any others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.nn.products import ROW_BLOCK, product

Numbers = NDArray[Any]
Pair = int | tuple[int, int]


def convolve(x: Numbers, weight: Numbers, stride: Pair, padding: str | Pair, row_block: int | None = None) -> Numbers:
    """Return the convolution of images [N, height, width, in] by a weight [rows, columns, in, out].

    Args:
        x: The images.
        weight: The kernels.
        stride: The distance that a kernel moves at a time, in pixels: of both axes, or down and to the right.
        padding: `"valid"`, `"same"`, or the number of zeros on each side; see `Ops.conv2d`.
        row_block: See `NumpyOps`.
    """
    rows, columns, channels, outputs = weight.shape
    strides = (stride, stride) if isinstance(stride, int) else tuple(stride)
    x = _padded(x, (rows, columns), strides, padding)
    windows = np.lib.stride_tricks.sliding_window_view(x, (rows, columns), axis=(1, 2))
    windows = windows[:, :: strides[0], :: strides[1]]
    count, height, width = windows.shape[:3]
    seen = windows.transpose(0, 1, 2, 4, 5, 3).reshape(count, height * width, rows * columns * channels)
    kernels = weight.reshape(-1, outputs)
    if height * width >= ROW_BLOCK:
        found = np.matmul(seen, kernels)
    else:
        found = product(seen.reshape(-1, seen.shape[-1]), kernels, row_block)
    result: Numbers = found.reshape(count, height, width, outputs)
    return result


def zeros_around(length: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return how many zeros before and after an axis make the result `length / stride` long, rounded up."""
    missing = max((-(-length // stride) - 1) * stride + kernel - length, 0)
    return missing // 2, missing - missing // 2


def _padded(x: Numbers, kernel: tuple[int, int], strides: tuple[int, ...], padding: str | Pair) -> Numbers:
    if padding == "valid":
        return x
    if padding == "same":
        sides = [zeros_around(*axis) for axis in zip(x.shape[1:3], kernel, strides, strict=True)]
    else:
        both = (padding, padding) if isinstance(padding, int) else padding
        sides = [(int(zeros), int(zeros)) for zeros in both]
    return np.pad(x, ((0, 0), *sides, (0, 0)))
