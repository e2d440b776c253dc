"""Waiting for the store: who leaves early leaves nothing behind, and nobody waits in silence."""

from __future__ import annotations

import errno
import pickle
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from kernel_engine.messages import process_messages as op
from kernel_processes.protocol.identity import Identity
from kernel_processes.runtime import store_access
from kernel_processes.runtime.process import Process
from kernel_processes.runtime.store_access import StoreAccess
from kernel_spec.errors import GetTimeoutError, ObjectStoreError, SessionEndedError

ME, OBJECT = b"process1", b"object--------------"
HERE: Any = (100, ())
OWNER: Any = (ME, "")
REASON = "the spill target 'disk' has been reading for 7 s"


class Agent:
    """The other end of the connection: notes what it is told and explains why it takes so long."""

    closed = False

    def __init__(self, process: Process) -> None:
        self._process = process
        self.outbox: list[Any] = []
        self.told: list[Any] = []

    def flush(self) -> None:
        while self.outbox:
            message = self.outbox.pop(0)
            if message[0] == op.CALL:
                self._process.reactor.call_later(0, partial(self.say, op.REPLY, message[1], REASON))
            else:
                self.told.append(message)

    def close(self, reason: str) -> None:
        self.closed = True

    def say(self, *message: Any) -> None:
        with self._process.lock:
            self._process.handlers[message[0]](self, message)  # type: ignore[arg-type]
            self._process.finish_batch()

    def answer(self, value: Any) -> None:
        """Answer the first thing it was told."""
        number = self.told[0][1]
        if isinstance(value, Exception):
            self.say(op.REPLY_ERROR, number, pickle.dumps(value))
        else:
            self.say(op.REPLY, number, pickle.dumps(value))

    def operations(self) -> list[int]:
        self._process.flush()
        return [message[0] for message in self.told]


class Memory:
    """A store client over bytes of its own."""

    def writable(self, location: int, size: int) -> memoryview:
        return memoryview(bytearray(size))

    def readable(self, location: int, size: int, released: Any) -> memoryview:
        return memoryview(bytes(size))

    def open_client(self, descriptors: Any, options: Any) -> Memory:
        return self


@pytest.fixture
def process(tmp_path: Any) -> Iterator[Process]:
    process = Process(Identity(ME, "driver", b"node", b"job", str(tmp_path), b"token"))  # type: ignore[arg-type]
    process.agent = Agent(process)  # type: ignore[assignment]
    yield process
    process.reactor.close()


@pytest.fixture
def agent(process: Process) -> Agent:
    return process.agent  # type: ignore[return-value]


@pytest.fixture
def access(process: Process, monkeypatch: pytest.MonkeyPatch) -> StoreAccess:
    monkeypatch.setattr(store_access, "fetch_descriptors", lambda address, token: ([], pickle.dumps({})))
    monkeypatch.setattr(store_access, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(store_access, "LEAST_SECONDS", 0.01)
    return StoreAccess(process, Memory)  # type: ignore[arg-type]


def press_ctrl_c() -> None:
    raise KeyboardInterrupt


def test_an_interrupted_write_is_given_up(process: Process, agent: Agent, access: StoreAccess) -> None:
    process.reactor.call_later(0, press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        access.write(OBJECT, b"head", [], ME)
    assert agent.operations() == [op.STORE_CREATE, op.STORE_ABORT]


def test_a_refused_write_leaves_nothing_to_give_up(process: Process, agent: Agent, access: StoreAccess) -> None:
    process.reactor.call_later(0, lambda: agent.answer(ObjectStoreError("full")))
    with pytest.raises(ObjectStoreError, match="full"):
        access.write(OBJECT, b"head", [], ME)
    assert agent.operations() == [op.STORE_CREATE]


def test_what_another_process_owns_is_sealed_before_it_can_hear_of_it(
    process: Process, agent: Agent, access: StoreAccess
) -> None:
    process.reactor.call_later(0, lambda: agent.answer(0))
    access.write(OBJECT, b"head", [], b"process2")  # type: ignore[arg-type]
    assert [message[0] for message in agent.told] == [op.STORE_CREATE, op.STORE_SEAL]


def test_an_interrupted_read_is_unpinned_when_the_pin_comes(
    process: Process, agent: Agent, access: StoreAccess
) -> None:
    process.reactor.call_later(0, press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        access.view(OBJECT, HERE, OWNER)
    assert agent.operations() == [op.STORE_PIN]
    agent.answer((0, 100))
    assert agent.operations() == [op.STORE_PIN, op.STORE_UNPIN]
    assert agent.told[1][1] == OBJECT


def test_an_interrupted_read_that_fails_is_not_unpinned(process: Process, agent: Agent, access: StoreAccess) -> None:
    process.reactor.call_later(0, press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        access.view(OBJECT, HERE, OWNER)
    agent.answer(ObjectStoreError("gone"))
    assert agent.operations() == [op.STORE_PIN]


def test_a_read_interrupted_after_its_answer_is_unpinned(process: Process, agent: Agent, access: StoreAccess) -> None:
    def answer_and_press() -> None:
        agent.answer((0, 100))
        raise KeyboardInterrupt

    process.reactor.call_later(0, answer_and_press)
    with pytest.raises(KeyboardInterrupt):
        access.view(OBJECT, HERE, OWNER)
    with process.lock:
        process.finish_batch()
    assert agent.operations() == [op.STORE_PIN, op.STORE_UNPIN]


def test_a_deadline_ends_the_wait_for_memory(agent: Agent, access: StoreAccess) -> None:
    with pytest.raises(GetTimeoutError, match=f"object {OBJECT.hex()} is ready, but not in memory: {REASON}"):
        access.view(OBJECT, HERE, OWNER, deadline=0.0)
    agent.answer((0, 100))
    assert agent.operations() == [op.STORE_PIN, op.STORE_UNPIN]


def test_what_is_in_memory_is_had_after_the_deadline(process: Process, agent: Agent, access: StoreAccess) -> None:
    process.reactor.call_later(0, lambda: agent.answer((0, 100)))
    assert access.view(OBJECT, HERE, OWNER, deadline=0.0).nbytes == 100


def test_a_long_wait_says_what_it_waits_for(process: Process, agent: Agent, access: StoreAccess) -> None:
    process.reactor.call_later(0.05, lambda: agent.answer((0, 100)))
    with capture_logs() as logs:
        access.view(OBJECT, HERE, OWNER)
    assert logs[0]["event"] == "still waiting for the object store"
    assert (logs[0]["object"], logs[0]["reason"]) == (OBJECT.hex(), REASON)
    assert len(logs) < 4, "warnings come ever rarer"


def test_a_store_whose_agent_is_gone_is_the_end_of_the_session(process: Process, agent: Agent) -> None:
    with pytest.raises(SessionEndedError, match=r"the session has ended.*call kernel.shutdown"):
        StoreAccess(process, Memory).view(OBJECT, HERE, OWNER)  # type: ignore[arg-type]
    assert agent.closed, "so that a worker does not tell of what it could not do, as if that had failed"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TimeoutError("timed out"), "lives, but did not pass the object store on: it is stopped or overloaded"),
        (OSError(errno.EMFILE, "Too many open files"), "can't be opened: Too many open files; close files, or raise"),
    ],
)
def test_a_store_that_can_not_be_opened_just_now_does_not_end_the_session(
    process: Process, agent: Agent, monkeypatch: pytest.MonkeyPatch, error: OSError, message: str
) -> None:
    def fail(address: str, token: bytes) -> Any:
        raise error

    monkeypatch.setattr(store_access, "fetch_descriptors", fail)
    with pytest.raises(ObjectStoreError, match=message):
        StoreAccess(process, Memory).view(OBJECT, HERE, OWNER)  # type: ignore[arg-type]
    assert not agent.closed
