"""Processes are known again by what their environment says."""

from __future__ import annotations

import os
import subprocess

from kernel_spec.process_marks import has_mark


def test_a_process_is_known_from_its_first_moment_to_its_last() -> None:
    """A new process shows no environment at first, about once in a hundred times."""
    for number in range(300):
        with subprocess.Popen(["sleep", "60"], env={**os.environ, "MARK": str(number)}) as process:
            assert has_mark(process.pid, "MARK", str(number))
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            assert not has_mark(process.pid, "MARK", str(number)), "it has ended, and nobody has asked for its status"
        assert not has_mark(process.pid, "MARK", str(number))


def test_others_have_other_marks() -> None:
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "MARK": "one", "OTHER": "MARK=two"}) as process:
        process_shows(process.pid)
        assert has_mark(process.pid, "MARK", "one") and has_mark(process.pid, "OTHER", "MARK=two")
        assert not has_mark(process.pid, "MARK", "on") and not has_mark(process.pid, "MARK", "two")
        process.kill()
    assert not has_mark(0, "MARK", "one")


def process_shows(pid: int) -> None:
    """Wait until the process shows its environment."""
    while True:
        with open(f"/proc/{pid}/environ", "rb") as file:
            if file.read():
                return
