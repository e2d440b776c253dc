"""Why workers have ended, in words, and what is left of them."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_processes.node.worker_exits import WorkerExits
from kernel_processes.node.worker_pool import LEASED, WorkerRecord
from kernel_spec.ids import ProcessId

KILLED, FAILED = signal.SIGKILL.value, 3 << 8
"""Exit statuses, as `os.wait` has them."""


class Stage:
    """Exits of a node's workers: the last they wrote, and what the machine is known to have killed."""

    def __init__(self, directory: Path) -> None:
        self.written: list[str] = []
        self.for_memory = ""
        config: Any = SimpleNamespace(directory=str(directory), node=b"\x01" * 8)
        logs: Any = SimpleNamespace(tail=lambda worker: self.written)
        memory: Any = SimpleNamespace(note_kill=lambda worker: self.for_memory)
        watch: Any = SimpleNamespace(look=lambda then: then(""))
        tidying: Any = SimpleNamespace(do=lambda work, then=None: work())
        self.exits = WorkerExits(config, logs, memory, watch, tidying)
        self.worker = WorkerRecord(ProcessId(b"worker-1"), (b"job", ""), LEASED, 10)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_the_cause_that_is_known_counts(stage: Stage) -> None:
    stage.worker.cause = "its caller ended"
    assert stage.exits.cause(stage.worker, KILLED) == "its caller ended"


def test_an_exit_code_is_told_with_the_place_and_the_last_lines(stage: Stage) -> None:
    assert stage.exits.cause(stage.worker, FAILED) == "it ended with exit code 3 (pid 10, node 01010101)"
    stage.written = ["Traceback (most recent call last):", "ValueError: 3"]
    told = stage.exits.cause(stage.worker, FAILED)
    assert told.startswith("it ended with exit code 3 (pid 10, node 01010101); the last it wrote to stderr:\n  ")
    assert told.endswith("\n  ValueError: 3")


def test_one_that_ended_well_has_no_last_lines(stage: Stage) -> None:
    stage.written = ["Traceback (most recent call last):", "ValueError: 3"]
    assert "stderr" not in stage.exits.cause(stage.worker, 0)


def test_the_machine_may_have_killed_it_for_memory(stage: Stage) -> None:
    stage.for_memory = "the machine itself killed it"
    assert stage.exits.cause(stage.worker, KILLED) == "the machine itself killed it"
    assert stage.exits.cause(stage.worker, FAILED).startswith("it ended with exit code 3"), "nobody has killed this one"


def test_a_status_is_taken_once(stage: Stage) -> None:
    assert not stage.exits.was_killed(10) and stage.exits.take(10) is None
    stage.exits.note(10, KILLED)
    stage.exits.note(11, FAILED)
    assert stage.exits.was_killed(10) and not stage.exits.was_killed(11)
    assert (stage.exits.take(10), stage.exits.take(10)) == (KILLED, None)


def test_the_sockets_of_one_that_is_gone_are_removed(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "sockets").mkdir()
    mine, other = (tmp_path / "sockets" / name.hex() for name in (stage.worker.id, b"another-"))
    for path in (mine, other):
        path.touch()
    for _ in range(2):  # what is gone already is fine
        stage.exits.remove_files(stage.worker)
    assert list((tmp_path / "sockets").iterdir()) == [other]
