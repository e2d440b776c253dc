"""What observer plugins hear of a session: everything that ended in order, in the words of the contract."""

from __future__ import annotations

import json
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel
from kernel.testing.constants import constants
from kernel.testing.faults import wait_until
from kernel.testing.session import running_session
from kernel_spec.observers import STATES

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120.0
RECORDER = """
    import json
    from kernel_spec import hookimpl

    class Recorder:
        def observe(self, events):
            with open({path!r}, "a") as file:
                for event in events:
                    json.dump([event.kind, event.state, event.id, dict(event.detail)], file, default=str)
                    file.write("\\n")

    @hookimpl
    def kernel_contracts():
        return {{"observer": 1}}

    @hookimpl
    def kernel_observers():
        return [Recorder()]
"""


LAST_WORDS = {
    "kernel_processes.node.agent.GRACE_SECONDS": SECONDS,
    "kernel_processes.node.worker_control.GRACE_SECONDS": SECONDS,
}
"""How long agents wait for what workers have to tell at their end: on a busy machine that takes more than a moment."""


class Recorded:
    """What the recorder has written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _lines(self) -> list[str]:
        """Return the lines that are whole: one may just be written."""
        return self._path.read_text().rpartition("\n")[0].splitlines() if self._path.exists() else []

    def events(self, kind: str) -> list[tuple[str, dict[str, Any]]]:
        """Return state and detail of the events of a kind, in order."""
        rows = [json.loads(line) for line in self._lines()]
        assert all(state in STATES[kind] for kind, state, _, _ in rows)
        return [(state, detail) for one, state, _, detail in rows if one == kind]

    def count(self, kind: str) -> Counter[tuple[str, str]]:
        """Return how often each name reached each state."""
        return Counter((detail.get("name", ""), state) for state, detail in self.events(kind))


def install(site: Path, name: str, module: str) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[kernel.plugins]\n{name} = {module}\n")


@pytest.fixture
def received(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    """An observer that is installed in the sessions of a test."""
    path = tmp_path / "received"
    install(tmp_path / "site", "recorder", "recorder_plugin")
    (tmp_path / "site" / "recorder_plugin.py").write_text(textwrap.dedent(RECORDER.format(path=str(path))))
    monkeypatch.syspath_prepend(tmp_path / "site")
    with constants(LAST_WORDS):
        yield Recorded(path)


@kernel.remote
def work(number: int) -> int:
    return number


@kernel.remote
def fails() -> None:
    raise ValueError("as it was asked to")


@kernel.remote(max_calls=1)
def once() -> None:
    pass


@kernel.remote(num_cpus=0)
class Counting:
    def up(self) -> None:
        pass

    async def stop(self) -> None:
        raise RuntimeError


def test_every_call_of_a_short_session_is_reported_and_whether_it_failed(received: Recorded) -> None:
    with running_session(num_cpus=2):
        kernel.get([work.remote(number) for number in range(2000)])
        with pytest.raises(ValueError):
            kernel.get(fails.remote())
        actor = Counting.remote()
        kernel.get(actor.up.remote())
        with pytest.raises(RuntimeError):
            kernel.get(actor.stop.remote())
        kernel.kill(actor)
    assert received.count("task") == {
        ("work", "FINISHED"): 2000,
        ("fails", "FAILED"): 1,
        ("Counting.up", "FINISHED"): 1,
        ("Counting.stop", "FAILED"): 1,
    }
    assert received.count("actor") == {("Counting", "ALIVE"): 1, ("Counting", "DEAD"): 1}
    assert [state for state, _ in received.events("node")] == ["ALIVE", "DEAD"]
    workers = Counter(state for state, _ in received.events("worker"))
    assert workers["ALIVE"] >= workers["DEAD"] >= 1


@kernel.remote(max_retries=0)
def hold() -> None:
    kept = bytearray(b"x") * (300 << 20)
    time.sleep(600)
    del kept


def test_the_end_of_a_worker_for_memory_is_told_with_its_reason(received: Recorded) -> None:
    with running_session(num_cpus=1, memory_limit=200 << 20, object_store_memory=16 << 20):
        with pytest.raises(MemoryError):
            kernel.get(hold.remote(), timeout=SECONDS)
        wait_until(lambda: any(state == "DEAD" for state, _ in received.events("worker")), SECONDS, "the end")
    detail = next(detail for state, detail in received.events("worker") if state == "DEAD")
    assert detail["fault"] == "out of memory"
    assert "memory ran out on node" in detail["cause"]


def refuse() -> None:
    raise ImportError("the worker lacks what this needs")


class Unreadable:
    def __reduce__(self) -> Any:
        return refuse, ()


def test_a_function_that_can_not_be_read_goes_by_its_name(received: Recorded) -> None:
    held = Unreadable()

    @kernel.remote
    def uses() -> Any:
        return held

    with running_session(num_cpus=1):
        with pytest.raises(ImportError):
            kernel.get(uses.remote())
        assert json.dumps(kernel.timeline())
    assert received.count("task") == {("uses", "FAILED"): 1}


def test_calls_are_reported_when_their_worker_ends_and_only_once(received: Recorded) -> None:
    with running_session(num_cpus=1):
        kernel.get([once.remote() for _ in range(3)])
        kernel.get(work.remote(1))
        wait_until(lambda: received.count("task")["work", "FINISHED"] == 1, SECONDS, "the call is collected")
        wait_until(lambda: received.count("task")["once", "FINISHED"] == 3, SECONDS, "the last words of the workers")
        kernel.get(work.remote(2))
    assert received.count("task") == {("once", "FINISHED"): 3, ("work", "FINISHED"): 2}


def test_objects_that_go_to_disk_and_come_back_are_reported(received: Recorded) -> None:
    with running_session(num_cpus=1, object_store_memory=32 << 20):
        refs = [kernel.put(np.full(10 << 20, number, np.uint8)) for number in range(5)]
        assert [int(kernel.get(ref)[0]) for ref in refs] == list(range(5))
        refs.clear()
    states = Counter(state for state, _ in received.events("object"))
    assert states["STORED"] == 5 and states["SPILLED"] >= 2 and states["RESTORED"] >= 2


def test_a_plugin_logs_to_the_agents_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "hello", "kernel_hello.plugin")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples" / "plugin_hello")
    monkeypatch.setenv("KERNEL_LOG_LEVEL", "info")
    with running_session(num_cpus=1) as session:
        kernel.get(work.remote(1))
        wait_until(lambda: "hello, worker " in session.log(), SECONDS, "the greeting")
        assert "logger=kernel_hello.observer" in session.log()
