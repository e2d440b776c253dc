"""Settings of a batched handler, checked when they are set."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from kernel_serve.errors import DeploymentError
from kernel_spec.dataclass import dataclass


@dataclass(slots=True)
class BatchSettings:
    """Holds the size and the waiting time of batches.

    `max_batch_size` is in the unit of `size_of`, which returns the size of a batch of the given items; None counts
    them. The first request of a batch waits `wait_seconds` for others. `max_concurrent_batches` run
    at a time.
    """

    max_batch_size: int = 10
    wait_seconds: float = 0.01
    max_concurrent_batches: int = 1
    size_of: Callable[[Sequence[Any]], float] | None = None

    def __post_init__(self) -> None:
        self.max_batch_size = checked_number("max_batch_size", self.max_batch_size)
        self.wait_seconds = checked_wait(self.wait_seconds)
        self.max_concurrent_batches = checked_number("max_concurrent_batches", self.max_concurrent_batches)
        if self.size_of is not None and not callable(self.size_of):
            raise DeploymentError(
                f"batch_size_fn is a function that takes a list of requests and returns their size, "
                f"not {self.size_of!r}"
            )


def checked_number(name: str, value: Any) -> int:
    """Return `value` as a whole number from 1 on. Raises DeploymentError with the setting's `name` otherwise."""
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if not whole or isinstance(value, bool) or value < 1:
        raise DeploymentError(f"{name} is a whole number from 1 on, not {value!r}")
    return int(value)


def checked_wait(value: Any) -> float:
    """Return `value` as a number of seconds from 0 on. Raises DeploymentError otherwise."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise DeploymentError(f"batch_wait_timeout_s is a number of seconds from 0 on, not {value!r}")
    return float(value)
