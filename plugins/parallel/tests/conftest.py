"""What the tests of the parallel helpers share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kernel


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    """One session of two CPUs for all tests of a module."""
    kernel.shutdown()
    with kernel.init(num_cpus=2, log_to_driver=False):
        yield


def wait_until(predicate: Callable[[], Any], timeout: float = 120.0) -> Any:
    """Return the first true value of `predicate`; fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := predicate()):
        assert time.monotonic() < deadline, f"still {value!r} after {timeout} s"
        time.sleep(0.01)
    return value


@pytest.fixture(scope="session")
def eventually() -> Callable[..., Any]:
    """`eventually(predicate)` polls until the predicate is true and returns its value."""
    return wait_until
