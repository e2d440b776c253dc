"""A flood of refusals is told in few lines, and none is kept back for ever."""

from __future__ import annotations

from kernel_processes.transport.reactor import Reactor
from kernel_processes.transport.refusal_log import RefusalLog


def test_ten_a_second_are_told_and_the_rest_counted():
    now = [0.0]
    loop, told = Reactor(lambda: now[0]), []
    refusals = RefusalLog(loop, told.append)
    for number in range(1000):
        refusals(f"reason {number}")
    assert told == [f"reason {number}" for number in range(10)]
    now[0] = 1.0
    loop.poll(0)
    assert told[10:] == ["990 more within 1 s, the last because: reason 999"]
    refusals("one")
    assert told[11:] == ["one"]
    now[0] = 5.0
    loop.poll(0)
    assert len(told) == 12
    loop.close()
