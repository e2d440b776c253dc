"""Products of matrices of which a row is the same among any other rows.

BLAS libraries choose how they multiply by the number of rows, and with it the order of sums: a row's last bits depend
on how many rows are beside it. In blocks of always equally many rows they don't, so that an action is the same whether
a process samples for two environments or for two hundred.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROW_BLOCK = 8
"""Rows of a block: as many as most processes have environments, and a full width of the processor's registers."""


def product(x: Any, y: Any, row_block: int | None = None, out: NDArray[Any] | None = None) -> Any:
    """Return `x @ y` for x [..., N, K] and y [..., K, M]; with a `row_block`, in blocks of so many rows of x.

    The result is in a new array, or in `out`.
    """
    if row_block is None or x.shape[-2] == row_block:
        # Of two matrices by dot: of few columns, matmul makes no product of BLAS.
        return x.dot(y, out) if x.ndim == 2 and y.ndim == 2 else np.matmul(x, y, out=out)
    rows = x.shape[-2]
    missing = -rows % row_block
    if missing:
        x = np.concatenate([x, np.zeros((*x.shape[:-2], missing, x.shape[-1]), x.dtype)], -2)
    blocks = x.reshape(*x.shape[:-2], -1, row_block, x.shape[-1])
    found = np.matmul(blocks, y[..., None, :, :])
    found = found.reshape(*found.shape[:-3], rows + missing, found.shape[-1])[..., :rows, :]
    if out is None:
        return found
    out[...] = found
    return out


@functools.lru_cache(maxsize=256)
def ones(length: int, dtype: Any) -> NDArray[Any]:
    """Return a row of ones, one for all: a product with it is a sum, and quicker than one."""
    row = np.ones(length, dtype)
    row.flags.writeable = False
    return row
