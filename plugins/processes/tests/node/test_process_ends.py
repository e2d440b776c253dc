"""What a node frees when a process has ended, here or elsewhere, and whom it tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.ended_processes import EndedProcesses
from kernel_engine.messages.named_messages import packed
from kernel_processes.node.head_client import HeadClient
from kernel_processes.node.process_ends import ProcessEnds
from kernel_processes.protocol import head_messages
from kernel_spec.ids import ProcessId

ONE, TWO = ProcessId(b"process1"), ProcessId(b"process2")


class Bench:
    """Keeps what is freed, and what the node's processes are told."""

    def __init__(self, alone: bool = False) -> None:
        self.done: list[Any] = []
        self.head = HeadClient(None)  # type: ignore[arg-type]
        self.processes: Any = SimpleNamespace(methods={}, broadcast=lambda message: self.done.append(message))
        store: Any = SimpleNamespace(client_left=lambda process: self.done.append(("store", process)))
        exchange: Any = SimpleNamespace(
            process_left=lambda process: self.done.append(("exchange", process)),
            node_left=lambda place: self.done.append(("exchange", place)),
        )
        self.ends = ProcessEnds(EndedProcesses(10), self.head, self.processes, store, None if alone else exchange)

    def has_ended(self, process: ProcessId) -> bool:
        return bool(self.processes.methods["has_ended"]("a connection", process))


@pytest.mark.parametrize("alone", [False, True])
def test_what_is_fetched_for_a_process_is_given_up_before_what_is_stored_for_it_is_freed(alone: bool) -> None:
    bench = Bench(alone)
    bench.ends.note(ONE)
    assert bench.done == ([] if alone else [("exchange", ONE)]) + [("store", ONE)]
    assert bench.has_ended(ONE) and not bench.has_ended(TWO)


def test_the_ends_of_processes_elsewhere_are_nobodys_business_while_their_node_lives() -> None:
    bench = Bench()
    bench.head.handle(packed(head_messages.ProcessesGone(processes=[ONE], place="")))
    assert bench.done == [("exchange", ONE), ("store", ONE)] and bench.has_ended(ONE)


def test_processes_hear_of_those_that_ended_with_their_node() -> None:
    bench = Bench()
    bench.head.handle(packed(head_messages.ProcessesGone(processes=[ONE, TWO], place="there:1")))
    freed = [(part, process) for process in (ONE, TWO) for part in ("exchange", "store")]
    told = packed(op.PeersGone(processes=[ONE, TWO], place="there:1"))
    assert bench.done == [*freed, ("exchange", "there:1"), told]
