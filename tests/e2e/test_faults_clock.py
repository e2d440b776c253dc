"""The wall clock jumps, in every process: nothing is declared dead, restarted, or waited for longer."""

from __future__ import annotations

import time

import kernel
from kernel.testing import Cluster
from kernel.testing.clocks import jumping_clock
from kernel.testing.faults import wait_until

SECONDS = 120.0


@kernel.remote(num_cpus=0, resources={"there": 1})
class Clock:
    def __init__(self) -> None:
        self.calls = 0

    def look(self) -> tuple[int, float]:
        self.calls += 1
        return self.calls, time.time()


@kernel.remote(resources={"there": 1})
def nap(seconds: float) -> float:
    begun = time.monotonic()
    time.sleep(seconds)
    return time.monotonic() - begun


def test_nothing_happens_when_the_clock_jumps() -> None:
    kernel.shutdown()
    real = time.time
    with jumping_clock() as wall:
        with Cluster(num_cpus=1, death_seconds=20.0, head_apart=True, plugins={"metadata_store": "sqlite"}) as cluster:
            cluster.add_node(num_cpus=2, resources={"there": 10})
            cluster.connect()
            clock = Clock.remote()
            for calls, seconds in enumerate((86_400, -172_800, 3_600, -600), start=1):
                napping = nap.remote(0.5)
                wall.jump(seconds)
                earlier = real()
                found, there = kernel.get(clock.look.remote(), timeout=SECONDS)
                assert found == calls, "the actor lives still"
                assert earlier - 5 < there - wall.ahead < real() + 5, "the node sees the jump"
                begun = time.monotonic()
                nowhere = nap.options(resources={"nowhere": 1}).remote(0)
                assert kernel.wait([nowhere], timeout=0.5)[0] == []
                kernel.cancel(nowhere)
                assert 0.4 < time.monotonic() - begun < SECONDS
                assert kernel.get(napping, timeout=SECONDS) < SECONDS
                assert [row["Alive"] for row in kernel.nodes()] == [True, True]
            cluster.kill_head()
            assert kernel.get(nap.remote(0.0), timeout=SECONDS) < SECONDS
            wait_until(lambda: [row["Alive"] for row in kernel.nodes()] == [True, True], SECONDS, "both nodes")
    assert time.time is real
