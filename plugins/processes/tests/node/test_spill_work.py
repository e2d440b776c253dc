"""Disk work has a time limit: who waits is told, memory that may still be written to is kept, others go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from kernel.testing.faults import wait_until
from kernel_processes.node.spill_work import CALL_SECONDS, LOOK_SECONDS, SLOWEST_BYTES_PER_SECOND, SpillWork
from kernel_processes.system.daemon_pool import MOST_HANGING
from kernel_processes.transport.reactor import Reactor
from kernel_spec import store as contract
from kernel_spec.errors import SpillError
from kernel_spec.ids import ObjectId

SECONDS = 120.0
"""How long anything may take: the machine may be busy."""
A, B, C = (ObjectId(bytes([letter]) * 20) for letter in b"abc")


class Target:
    """Keeps bytes in a dictionary. What touches an object in `stuck` hangs until that is cleared."""

    name = "mine"

    def __init__(self) -> None:
        self.stuck: dict[str, threading.Event] = {}
        self.kept: dict[str, bytes] = {}
        self.deleted: list[list[str]] = []
        self.closed = False
        self.calls = 0

    def hang(self, what: bytes | str) -> threading.Event:
        return self.stuck.setdefault(what if isinstance(what, str) else f"mine:{what.hex()}", threading.Event())

    def _pass(self, uri: str) -> None:
        self.calls += 1
        if uri in self.stuck:
            self.stuck[uri].wait()

    def write(self, object: ObjectId, data: memoryview) -> str:
        uri = f"mine:{object.hex()}"
        self._pass(uri)
        self.kept[uri] = bytes(data)
        return uri

    def read_into(self, uri: str, data: memoryview) -> None:
        self._pass(uri)
        data[:] = self.kept[uri]

    def delete(self, uri: str) -> None:
        raise AssertionError("delete_many is there")

    def delete_many(self, uris: list[str]) -> None:
        self._pass("delete")
        self.deleted.append(list(uris))
        for uri in uris:
            self.kept.pop(uri, None)

    def close(self) -> None:
        self._pass("close")
        self.closed = True


class Bench:
    """Disk work over one piece of memory, with a clock of its own."""

    def __init__(self, target: Any = None) -> None:
        self.now = 100.0
        self.fed: list[Any] = []
        self.memory = bytearray(10)
        self.target = target or Target()
        self.reactor = Reactor(lambda: self.now)
        self.work = SpillWork(self, self.target, self.reactor)  # type: ignore[arg-type]

    def view(self, location: int, size: int) -> memoryview:
        return memoryview(self.memory)[:size]

    def later(self, seconds: float) -> None:
        """Let time pass, in steps that the look at what hangs sees."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + LOOK_SECONDS)
            self.reactor.poll(0)

    def until(self, condition: Callable[[], object], what: str) -> None:
        def turn() -> object:
            self.reactor.poll(0.01)
            self.work.finish()
            return condition()

        wait_until(turn, SECONDS, what)

    def write(self, object: ObjectId, size: int = 10) -> None:
        self.work.begin(contract.WriteSpill(object, 0, size), self.fed.append)

    def read(self, object: ObjectId) -> None:
        self.work.begin(contract.ReadSpill(object, f"mine:{object.hex()}", 0, 10), self.fed.append)

    def close(self) -> None:
        for event in self.target.stuck.values():
            event.set()
        self.work.close()
        self.reactor.close()


@pytest.fixture
def bench() -> Any:
    made = Bench()
    yield made
    made.close()


def test_writes_reads_and_deletes(bench: Bench) -> None:
    bench.memory[:] = b"0123456789"
    bench.write(A)
    bench.until(lambda: bench.fed == [contract.SpillDone(A, f"mine:{A.hex()}")], "a write")
    bench.memory[:] = bytes(10)
    bench.read(A)
    bench.until(lambda: bench.fed[1:] == [contract.RestoreDone(A)], "a read")
    assert bench.memory == b"0123456789"
    bench.read(B)
    bench.until(lambda: len(bench.fed) == 3, "a read that fails")
    assert isinstance(bench.fed[2], contract.RestoreFailed) and "its read_into() raised KeyError" in str(
        bench.fed[2].error
    )


def test_a_copy_that_is_not_what_was_written_is_lost(bench: Bench) -> None:
    bench.memory[:] = b"0123456789"
    bench.write(A)
    bench.until(lambda: bench.fed, "a write")
    uri = f"mine:{A.hex()}"
    bench.target.kept[uri] = b"0123456799"
    bench.read(A)
    bench.until(lambda: len(bench.fed) == 2, "a read")
    assert isinstance(bench.fed[1], contract.RestoreFailed)
    assert "10 bytes with the CRC-32 a684c7c6 were written" in str(bench.fed[1].error)
    bench.target.kept[uri] = b"0123456789"
    bench.read(A)
    bench.until(lambda: bench.fed[2:] == [contract.RestoreDone(A)], "a read of what is whole again")


def test_a_write_that_hangs_fails_with_target_and_seconds(bench: Bench) -> None:
    go = bench.target.hang(A)
    bench.write(A)
    bench.until(lambda: bench.target.calls == 1, "the call")
    bench.later(CALL_SECONDS - 1)
    assert bench.fed == []
    assert "for 59 s now" in bench.work.explain(A)
    bench.later(2)
    (failed,) = bench.fed
    assert isinstance(failed, contract.SpillFailed) and isinstance(failed.error, SpillError)
    assert str(failed.error) == (
        f"the spill target 'mine' did not write object {A.hex()} of 10 bytes within 60 s: it hangs; see whether its "
        "place (spill_directory) answers, or name another"
    )
    assert bench.work.explain(A) == ""
    go.set()
    bench.until(lambda: bench.target.deleted == [[f"mine:{A.hex()}"]], "the end of a copy that came too late")
    assert bench.fed == [failed]


def test_a_larger_object_may_take_longer(bench: Bench) -> None:
    bench.target.hang(A)
    bench.write(A, 100 * SLOWEST_BYTES_PER_SECOND)
    bench.until(lambda: bench.target.calls == 1, "the call")
    bench.later(CALL_SECONDS + 99)
    assert bench.fed == []
    bench.later(3)
    assert "within 160 s" in str(bench.fed[0].error)


def test_a_target_may_set_its_own_limit() -> None:
    class Hasty(Target):
        timeout_seconds = 2.0

    bench = Bench(Hasty())
    bench.target.hang(A)
    bench.write(A)
    bench.until(lambda: bench.target.calls == 1, "the call")
    bench.later(3)
    assert "within 2 s" in str(bench.fed[0].error)
    bench.close()


def test_a_read_that_hangs_is_late_and_may_still_come(bench: Bench) -> None:
    bench.memory[:] = b"0123456789"
    bench.write(A)
    bench.until(lambda: bench.fed, "a write")
    bench.fed.clear()
    bench.memory[:] = bytes(10)
    go = bench.target.hang(A)
    bench.read(A)
    bench.until(lambda: bench.target.calls == 2, "the call")
    bench.later(CALL_SECONDS + 1)
    (late,) = bench.fed
    assert isinstance(late, contract.RestoreLate) and "did not read object" in str(late.error)
    bench.later(CALL_SECONDS)
    assert bench.fed == [late], "it is said once"
    go.set()
    bench.until(lambda: bench.fed[1:] == [contract.RestoreDone(A)], "the answer")
    assert bench.memory == b"0123456789"


def test_others_go_on_beside_what_hangs(bench: Bench) -> None:
    for object in (A, B):
        bench.target.hang(object)
        bench.write(object)
    bench.until(lambda: bench.target.calls == 2, "two calls, which take both threads")
    bench.write(C)
    bench.later(CALL_SECONDS + 1)
    bench.until(lambda: contract.SpillDone(C, f"mine:{C.hex()}") in bench.fed, "the third")
    assert sorted(type(done).__name__ for done in bench.fed) == ["SpillDone", "SpillFailed", "SpillFailed"]


def test_an_object_is_written_again_while_its_first_write_hangs(bench: Bench) -> None:
    go = bench.target.hang(A)
    bench.write(A)
    bench.until(lambda: bench.target.calls == 1, "the call")
    bench.later(CALL_SECONDS + 1)
    bench.target.write = lambda object, data: "mine:second"
    bench.write(A)
    bench.until(lambda: contract.SpillDone(A, "mine:second") in bench.fed, "the second write")
    go.set()
    bench.until(lambda: bench.target.deleted == [[f"mine:{A.hex()}"]], "the end of the first copy alone")
    assert len(bench.fed) == 2


def test_too_much_that_hangs_fails_what_comes_at_once_until_one_comes_back(bench: Bench) -> None:
    objects = [ObjectId(bytes([number]) * 20) for number in range(MOST_HANGING + 2)]
    for object in objects:
        bench.target.hang(object)
        bench.write(object)
    for round in range(1, MOST_HANGING // 2 + 1):
        bench.until(lambda expected=2 * round: bench.target.calls >= expected, "two more calls")
        bench.later(CALL_SECONDS + 1)

    def told() -> bool:
        bench.later(1.0)  # a call's time is counted from when its thread began it, which may be a moment later
        return len(bench.fed) == len(objects)

    bench.until(told, "those that no thread could take up are told, too")
    assert all("hangs" in str(done.error) for done in bench.fed)
    bench.write(C)
    bench.until(lambda: len(bench.fed) == len(objects) + 1, "an answer at once")
    assert "hangs: 16 calls have not come back" in str(bench.fed[-1].error)
    for object in objects[:2]:  # a thread may have taken up one more between two that were left behind
        bench.target.stuck[f"mine:{object.hex()}"].set()
    bench.until(lambda: not bench.work._threads.is_blocked, "one that comes back")
    bench.write(C)
    bench.until(lambda: isinstance(bench.fed[-1], contract.SpillDone), "a write that works")


def test_copies_are_deleted_together(bench: Bench) -> None:
    go = bench.target.hang("delete")
    bench.work.delete("one")
    bench.until(lambda: bench.target.calls == 1, "the first delete")
    for uri in ("two", "three", "four"):
        bench.work.delete(uri)
    go.set()
    bench.until(lambda: bench.target.deleted == [["one"], ["two", "three", "four"]], "two calls for four copies")


def test_a_delete_that_hangs_holds_up_nothing(bench: Bench) -> None:
    bench.target.hang("delete")
    bench.work.delete("one")
    bench.until(lambda: bench.target.calls == 1, "the first delete")
    bench.work.delete("two")
    bench.target.stuck = {"gone": bench.target.stuck.pop("delete")}
    bench.later(CALL_SECONDS + 1)
    bench.until(lambda: bench.target.deleted == [["two"]], "the second delete")


def test_the_end_does_not_wait_for_what_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel_processes.node.spill_work.CLOSE_SECONDS", 0.2)
    bench = Bench()
    go = [bench.target.hang(A), bench.target.hang("close")]
    bench.write(A)
    bench.until(lambda: bench.target.calls == 1, "the call")
    bench.work.close()
    wait_until(lambda: bench.target.calls == 2, SECONDS, "the call that closes")
    assert not bench.target.closed
    for event in go:
        event.set()
    wait_until(lambda: bench.target.closed, SECONDS, "the end of the target")
    wait_until(
        lambda: not [t for t in threading.enumerate() if t.name.startswith("spill")], SECONDS, "the end of threads"
    )
    bench.reactor.close()
