"""What the tests over real processes share: sessions, and waiting for something to become true."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kernel
from kernel.testing import Cluster
from kernel.testing.faults import PATIENCE_SECONDS


def wait_until(predicate: Callable[[], Any], timeout: float = PATIENCE_SECONDS) -> Any:
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
    """`eventually(predicate, timeout=120.0)` polls until the predicate is true and returns its value."""
    return wait_until


@pytest.fixture
def patient_explanations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give others the time to say what something waits for: `get` and `explain` would do without it after a moment."""
    monkeypatch.setattr("kernel_processes.runtime.session_objects._HASTE_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr("kernel_processes.runtime.inspection.PATIENCE_SECONDS", PATIENCE_SECONDS)


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


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes of two CPUs for all tests of a module: this program's, "b" and "c", each with a resource of its name.

    The head's own node has the resource "a".
    """
    kernel.shutdown()
    with Cluster(num_cpus=2, resources={"a": 100}) as cluster:
        for name in "bc":
            cluster.add_node(num_cpus=2, resources={name: 100}, labels={"name": name})
        cluster.connect()
        yield cluster


def leftovers() -> list[str]:
    """Return what the processes and stores of the session still hold: nothing, once nobody needs anything."""
    gc.collect()
    found = kernel.api.session.ensure_session().query("memory")
    rows = [f"{row['role']} {row['pid']} holds {row['rows']}" for row in found["processes"] if row["count"]]
    stored = [f"stored: {object.hex()}, {rest}" for object, *rest in found["stored"]]
    return rows + stored + [f"{pid} says nothing" for pid in found["silent"]]


@pytest.fixture
def nothing_left(cluster: Cluster) -> Iterator[None]:
    """Fail a test after which a process or a store of the cluster still holds an object."""
    yield
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := leftovers():
        assert time.monotonic() < deadline, "\n".join(left)
        time.sleep(0.02)
