"""What an agent does again and again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernel_processes.node import housekeeping
from kernel_processes.node.housekeeping import IDLE_WORKER_SECONDS, MEMORY_SECONDS, TICK_SECONDS, Housekeeping
from kernel_processes.transport.reactor import Reactor


class Bench:
    """Keeps what is done, on a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reactor = Reactor(lambda: self.now)
        self.done: list[Any] = []
        self.state: Any = SimpleNamespace(leaving=False, total={"CPU": 4.0})
        workers: Any = SimpleNamespace(reap=lambda: self.done.append("reaped"))
        events: Any = SimpleNamespace(collect=lambda: self.done.append("collected"))
        control: Any = SimpleNamespace(retire_idle=lambda keep, after: self.done.append((keep, after)))
        Housekeeping(self.reactor, workers, control, events, self.state).begin()

    def after(self, seconds: float) -> list[Any]:
        self.now += seconds
        self.done.clear()
        self.reactor.poll(0.0)
        return self.done


@pytest.fixture
def returned(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return what grows each time memory is returned to the system."""
    returned: list[bool] = []
    monkeypatch.setattr(housekeeping, "give_memory_back", lambda: returned.append(True))
    return returned


def test_workers_are_looked_after_several_times_a_second(returned: list[bool]) -> None:
    bench = Bench()
    assert bench.after(TICK_SECONDS / 2) == []
    for _ in range(3):
        assert bench.after(TICK_SECONDS) == ["reaped", "collected", (4, IDLE_WORKER_SECONDS)]
    assert not returned


@pytest.mark.parametrize(("total", "keep"), [({"CPU": 0.5}, 1), ({}, 1), ({"CPU": 2.9}, 2)])
def test_at_least_one_idle_worker_stays(returned: list[bool], total: dict[str, float], keep: int) -> None:
    bench = Bench()
    bench.state.total = total
    assert bench.after(TICK_SECONDS)[-1] == (keep, IDLE_WORKER_SECONDS)


def test_a_node_that_leaves_keeps_no_idle_worker(returned: list[bool]) -> None:
    bench = Bench()
    bench.state.leaving = True
    assert bench.after(TICK_SECONDS)[-1] == (0, 0.0)


def test_memory_is_returned_each_minute(returned: list[bool]) -> None:
    bench = Bench()
    bench.after(MEMORY_SECONDS - 1.0)
    assert len(returned) == 0
    bench.after(1.0)
    assert len(returned) == 1
    bench.after(MEMORY_SECONDS)
    assert len(returned) == 2
