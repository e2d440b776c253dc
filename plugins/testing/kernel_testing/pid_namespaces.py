"""PID namespaces for tests, as containers have them. Files are those of the machine.

    @in_pid_namespace
    def test_mine(prefix):
        inside = CommandLine(root, prefix)

This needs Linux and the right to make namespaces, which root has; elsewhere such a test is skipped with the reason.
"""

from __future__ import annotations

import functools
import inspect
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kernel_processes.system.processes import children_of
from kernel_testing.faults import PATIENCE_SECONDS, title_of, wait_until

_UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


@contextmanager
def pid_namespace() -> Iterator[tuple[str, ...]]:
    """Make a PID namespace; give what comes before a command that runs in it. All in it is killed afterwards."""
    maker = subprocess.Popen([*_UNSHARE, "sleep", "infinity"])
    try:
        wait_until(lambda: [title_of(pid) for pid in children_of(maker.pid)] == ["sleep"], PATIENCE_SECONDS, "a sleep")
        (first,) = children_of(maker.pid)
        yield ("nsenter", "--target", str(first), "--pid", "--mount")
    finally:
        maker.kill()
        maker.wait()


def why_not() -> str:
    """Return why this machine can't have such namespaces, or nothing where it can."""
    try:
        done = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    except FileNotFoundError as error:
        return str(error)
    return " ".join(done.stderr.split()) if done.returncode else ""


def in_pid_namespace(test: Callable[..., None]) -> Callable[..., None]:
    """Give a test the prefix of a PID namespace as its first argument; where there can be none, skip it."""

    @functools.wraps(test)
    def run(*arguments: Any, **more: Any) -> None:
        if reason := why_not():
            pytest.skip(f"not tried in a PID namespace: {reason}")
        with pid_namespace() as prefix:
            test(prefix, *arguments, **more)

    _, *others = inspect.signature(test).parameters.values()
    run.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
    return run
