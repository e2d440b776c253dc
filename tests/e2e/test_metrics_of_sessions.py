"""Metrics of programs, tasks and actors are read in one place, in both engines, and outlive the processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

import kernel
from kernel.testing.faults import wait_until

SECONDS = 120.0


@pytest.fixture(params=[False, True], ids=["processes", "local"])
def local_mode(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Run a session of each engine."""
    kernel.init(num_cpus=2, local_mode=request.param)
    yield request.param
    kernel.shutdown()


def values(name: str) -> dict[tuple[str, ...], Any]:
    """Return the values of a metric by those of its tags."""
    return {tuple(row["tags"].values()): row["value"] for row in kernel.metrics.collect(name)}


def test_all_processes_count_in_one_metric(local_mode: bool) -> None:
    name = f"e2e_orders_{local_mode}_total"
    orders = kernel.metrics.Counter(name, "Orders.", ("where",))
    sizes = kernel.metrics.Histogram(f"{name}_size", boundaries=(1, 10), tag_keys=("where",))

    @kernel.remote
    def task(number: int) -> None:
        orders.inc(tags={"where": "task"})
        sizes.observe(number, {"where": "task"})

    @kernel.remote
    class Shop:
        def sell(self) -> None:
            orders.inc(5, {"where": "actor"})

    shop = Shop.remote()
    kernel.get([*[task.remote(number) for number in range(20)], shop.sell.remote(), shop.sell.remote()])
    orders.inc(tags={"where": "program"})
    assert values(name) == {("task",): 20, ("actor",): 10, ("program",): 1}
    (row,) = kernel.metrics.collect(f"{name}_size")
    assert (row["value"], row["sum"], list(row["buckets"].values())) == (20, 190, [2, 9, 9])
    text = kernel.metrics.prometheus_text()
    assert f"# TYPE {name} counter\n" in text and f'{name}{{where="task"}} 20\n' in text
    kernel.kill(shop)
    assert values(name) == {("task",): 20, ("actor",): 10, ("program",): 1}, "what was counted stays"
    wait_until(lambda: values("kernel_actors") == {("DEAD",): 1}, SECONDS, "the death of the actor")
    assert values(name) == {("task",): 20, ("actor",): 10, ("program",): 1}, "once, also when it is gone"


def test_the_session_itself_has_metrics(local_mode: bool) -> None:
    @kernel.remote
    def fail() -> None:
        raise ValueError("as it should")

    with pytest.raises(ValueError, match="as it should"):
        kernel.get(fail.remote())
    wait_until(lambda: values("kernel_calls_running") == {(): 0}, SECONDS, "the end of all calls")
    assert values("kernel_calls_failed_total") == {(): 1}
    assert values("kernel_nodes") == {("ALIVE",): 1}
    assert values("kernel_resources")["CPU",] == 2
    large = kernel.put(b"x" * 10_000_000)
    wait_until(lambda: values("kernel_object_store_used_bytes")[()] >= 10_000_000, SECONDS, "the value in the store")
    assert values("kernel_object_store_objects") == {(): 1}
    del large


def test_what_a_killed_worker_told_last_stays() -> None:
    with kernel.init(num_cpus=1):
        seen = kernel.metrics.Counter("e2e_seen_total")
        depth = kernel.metrics.Gauge("e2e_depth")

        @kernel.remote
        class Watcher:
            def see(self) -> int:
                seen.inc(3)
                depth.set(7)
                return os.getpid()

        watcher = Watcher.remote()
        pid = kernel.get(watcher.see.remote())
        assert (values("e2e_seen_total"), values("e2e_depth")) == ({(): 3}, {(): 7})
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: values("kernel_actors") == {("DEAD",): 1}, SECONDS, "the death of the actor")
        wait_until(lambda: values("e2e_depth") == {}, SECONDS, "the end of the gauge")
        assert values("e2e_seen_total") == {(): 3}
