"""Limits on gradients, as flat vectors, in place. numpy and torch vectors alike."""

from __future__ import annotations

import math
from typing import Any

from kernel_rllib.errors import ConfigError
from kernel_rllib.nn.parameters import ParameterTable


def clip_by_global_norm(gradient: Any, limit: float) -> float:
    """Scale the whole vector so that its length is at most `limit`; return the length before.

    (Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks, 2013, algorithm 1, with torch's
    1e-6 against a division by zero.) A length that is not finite is returned, and the vector stays as it is.
    """
    length = norm(gradient)
    if limit < length < float("inf"):
        gradient *= limit / (length + 1e-6)
    return length


def clip_by_norm(gradient: Any, table: ParameterTable, limit: float) -> float:
    """Scale each parameter's gradient so that its length is at most `limit`; return the greatest length before."""
    greatest = 0.0
    for _, entry in table.items():
        length = clip_by_global_norm(gradient[entry.place], limit)
        greatest = length if length > greatest or length != length else greatest
    return greatest


def clip_by_value(gradient: Any, limit: float) -> None:
    """Bring each number between `-limit` and `limit`."""
    if hasattr(gradient, "clamp_"):
        gradient.clamp_(-limit, limit)
    else:
        gradient.clip(-limit, limit, out=gradient)


def clip_gradient(gradient: Any, table: ParameterTable, by: str, limit: float | None) -> float:
    """Limit a gradient in the way that a configuration names: "global_norm", "norm" or "value".

    Returns the length of the whole gradient before. `limit` None leaves it as it is. Raises ConfigError for another
    way.
    """
    if by not in ("global_norm", "norm", "value"):
        raise ConfigError(f"grad_clip_by is {by!r}: take 'global_norm', 'norm' or 'value'")
    if limit is not None and by == "global_norm":
        return clip_by_global_norm(gradient, limit)
    length = norm(gradient)
    if limit is not None and by == "norm":
        clip_by_norm(gradient, table, limit)
    elif limit is not None:
        clip_by_value(gradient, limit)
    return length


def norm(vector: Any) -> float:
    """Return the length of a vector."""
    return math.sqrt(vector.dot(vector))
