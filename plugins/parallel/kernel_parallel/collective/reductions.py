"""How values of several members become one."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from kernel_parallel.collective.errors import GroupError


class ReduceOp(Enum):
    """What `allreduce`, `reduce` and `reducescatter` make of the values of all members."""

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3
    AVERAGE = 4


_FUNCTIONS = {
    ReduceOp.SUM: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
    ReduceOp.AVERAGE: np.add,
}


def function_of(op: ReduceOp) -> Any:
    """Return the numpy function that joins the values of two members (an average is divided at the end)."""
    return _FUNCTIONS[op]


def op_of(op: ReduceOp | str) -> ReduceOp:
    """Return a reduction by its value or its name. Raises GroupError for others."""
    if isinstance(op, ReduceOp):
        return op
    try:
        return ReduceOp[str(op).upper()]
    except KeyError:
        known = ", ".join(one.name.lower() for one in ReduceOp)
        raise GroupError(f"there is no reduction {op!r}; known are: {known}") from None


def check_average(op: ReduceOp, dtype: np.dtype[Any]) -> None:
    """Raise GroupError where an average can't be stored in the array it is asked of."""
    if op is ReduceOp.AVERAGE and dtype.kind not in "fc":
        raise GroupError(f"an average of {dtype} values has fractions; give an array of floating-point numbers")
