"""Which words go to nodes and to the scheduler when a node is drained, and when that is cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kernel_engine.messages.named_messages import number_of, packed
from kernel_processes.protocol import head_messages
from kernel_spec.errors import OptionError
from kernel_spec.scheduling import DrainCancelled, NodeDraining
from plugins.processes.tests.head.head_bench import SECOND, Bench

ASK_NODE = number_of(head_messages.AskNode)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.join()
    bench.said_to.clear()
    bench.scheduler.received.clear()
    yield bench
    assert bench.ended == []


def answer(bench: Bench, asked: tuple[Any, ...]) -> None:
    """Answer as the second node that its store is empty."""
    bench.tell(1, *packed(head_messages.AskAnswered(number=asked[1], value={"stored": []})))


def test_a_cancelled_drain_is_told_to_the_node_and_the_scheduler(bench: Bench) -> None:
    bench.call("drain_node", SECOND.hex(), 60.0)
    assert bench.nodes[1].state == "DRAINING"
    bench.call("cancel_drain", SECOND.hex())
    assert bench.nodes[1].state == "ALIVE"
    assert bench.scheduler.received == [NodeDraining(SECOND), DrainCancelled(SECOND)]
    told = [message for message in bench.take(SECOND) if message[0] != ASK_NODE]
    assert told == [packed(head_messages.DrainNode(seconds=60.0)), packed(head_messages.CancelDrain())]


def test_to_cancel_the_drain_of_a_node_that_stays_does_nothing(bench: Bench) -> None:
    bench.call("cancel_drain", SECOND.hex())
    assert bench.take(SECOND) == [] and bench.scheduler.received == []


def test_an_answer_about_a_drain_that_was_cancelled_is_not_taken_for_one_about_the_next(bench: Bench) -> None:
    bench.call("drain_node", SECOND.hex(), None)
    (old,) = [message for message in bench.take(SECOND) if message[0] == ASK_NODE]
    bench.call("cancel_drain", SECOND.hex())
    bench.call("drain_node", SECOND.hex(), None)
    bench.timers[-1][1]()
    (new,) = [message for message in bench.take(SECOND) if message[0] == ASK_NODE]
    answer(bench, old)
    assert not any(message[0] == number_of(head_messages.EndNode) for message in bench.take(SECOND))
    answer(bench, new)
    assert [message[0] for message in bench.take(SECOND)] == [number_of(head_messages.EndNode)]


def test_it_is_too_late_once_the_node_ends(bench: Bench) -> None:
    bench.call("drain_node", SECOND.hex(), None)
    (asked,) = [message for message in bench.take(SECOND) if message[0] == ASK_NODE]
    answer(bench, asked)
    said = f"node {SECOND.hex()} was drained and is ending: its drain can't be cancelled any more"
    with pytest.raises(OptionError, match=said):
        bench.call("cancel_drain", SECOND.hex())
    with pytest.raises(OptionError, match="there is no living node 'nowhere'"):
        bench.call("cancel_drain", "nowhere")
