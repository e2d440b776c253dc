"""A running session for tests, which must leave nothing behind.

from kernel_testing.session import kernel_session  # a pytest fixture

def test_mine(kernel_session):
    assert kernel.get(double.remote(21)) == 42

def test_other():
    with running_session(num_cpus=4, scheduler="mine") as session:
        ...
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

import kernel
from kernel.api.session import SessionInfo
from kernel_spec.dataclass import dataclass
from kernel_testing.faults import agents_of, template_of, workers_of
from kernel_testing.leaks import no_leaks
from kernel_testing.roots import temporary_root


@dataclass(slots=True)
class RunningSession:
    """The session of this process. `root` is where all of its files are; it is gone afterwards."""

    info: SessionInfo
    root: str

    @property
    def directory(self) -> str:
        """The session's own directory."""
        return str(self.info["session_dir"])

    @property
    def agent(self) -> int:
        """The process id of the node agent."""
        return agents_of()[-1]

    @property
    def template(self) -> int:
        """The process id of the template, from which workers are forked."""
        return template_of(self.agent)

    def workers(self) -> list[int]:
        """Return the process ids of the workers, oldest first."""
        return workers_of(self.agent)

    def sockets(self) -> list[str]:
        """Return the path of every socket of the session: the agent's, then one per process."""
        folder = os.path.join(self.directory, "sockets")
        return [
            os.path.join(self.directory, "agent.sock"),
            *(os.path.join(folder, n) for n in sorted(os.listdir(folder))),
        ]

    def log(self, name: str = "agent.log") -> str:
        """Return what is in a log of the session; nothing if nothing was logged yet."""
        if not os.path.exists(os.path.join(self.directory, "logs", name)):
            return ""
        with open(os.path.join(self.directory, "logs", name), encoding="utf-8", errors="replace") as file:
            return file.read()


@contextmanager
def running_session(*, leak_check: bool = True, **options: Any) -> Iterator[RunningSession]:
    """Start a session with these options of `kernel.init`, end it, and check that it left nothing behind.

    Raises AssertionError with a list of what is left (see `kernel_testing.leaks`), unless `leak_check` is off.
    """
    with temporary_root() as root:
        with no_leaks(root) if leak_check else nullcontext():
            with _session(root, options) as session:
                yield session


@contextmanager
def _session(root: str, options: dict[str, Any]) -> Iterator[RunningSession]:
    options = {"num_cpus": 2, "object_store_memory": 256 << 20, "temp_dir": root, **options}
    info = kernel.init(**options)
    try:
        yield RunningSession(info, root)
    finally:
        kernel.shutdown()


@pytest.fixture
def kernel_session() -> Iterator[RunningSession]:
    """A session with two CPUs and a store of 256 MB, checked for leaks when the test is over."""
    with running_session() as session:
        yield session
