"""What the tests over real processes share: sessions, and waiting for something to become true."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kernel


def wait_until(predicate: Callable[[], Any], timeout: float = 10.0) -> Any:
    """Return the first true value of `predicate`, asked every few milliseconds; fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"still not true after {timeout} s (last: {value!r})", pytrace=True)
        time.sleep(0.01)


@pytest.fixture(scope="session")
def eventually() -> Callable[..., Any]:
    """`eventually(predicate, timeout=10.0)` polls until the predicate is true and returns its value."""
    return wait_until


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    """One session of two CPUs for all tests of a module."""
    kernel.shutdown()
    with kernel.init(num_cpus=2) as info:
        yield info


@pytest.fixture
def fresh_session(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """`fresh_session(**options)` starts a session for one test; it ends with the test."""
    kernel.shutdown()
    yield lambda **options: kernel.init(**{"num_cpus": 2, **options})
    kernel.shutdown()
    if "session" in request.fixturenames:
        kernel.init(num_cpus=2)


@pytest.fixture(scope="module", params=["local", "processes"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the tests of a module in local mode, and again over real processes."""
    kernel.shutdown()
    with kernel.init(num_cpus=4, num_gpus=2, resources={"seat": 2}, local_mode=request.param == "local"):
        yield request.param
