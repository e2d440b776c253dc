"""Both engines of the kernel pass the suite, and wrong ones do not."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, ClassVar

import kernel_local_mode.engine
import pytest
from kernel_conformance import engine_sessions, engine_streams, engine_suite, engine_tasks
from kernel_conformance.engine import EngineConformance

import kernel
import kernel_processes.session.engine
from kernel.testing.first_failure import first_failure
from kernel_engine.one_process.calls import Call
from kernel_engine.one_process.runtime import OneProcessRuntime, OneProcessSession
from kernel_engine.partial_runtime import refuse_options
from kernel_spec.errors import TaskError
from kernel_spec.ids import NodeId


class TestLocalMode(EngineConformance):
    make_session = staticmethod(kernel_local_mode.engine.open_session)
    concurrent = kernel_local_mode.engine.CONFORMANCE["engine"]["concurrent"]
    refused = kernel_local_mode.engine.CONFORMANCE["engine"]["refused"]


class TestProcesses(EngineConformance):
    make_session = staticmethod(kernel_processes.session.engine.open_session)


# -- wrong engines, which the suite must find out ------------------------------------------------------------------


class Wrong(OneProcessRuntime):
    """Right: each task in a thread of its own."""

    engine = "wrong"

    def submit(self, function: Any, args: Any, kwargs: Any) -> Any:
        call = self.call(function, args, kwargs)
        self.begin(call)
        call.when_ready(threading.Thread(target=call.run, args=[function.function], daemon=True).start)
        return call.result

    def call(self, function: Any, args: Any, kwargs: Any) -> Call:
        self.refuse_wishes(function.name, function.shape)
        return Call(self, function, function.name, function.max_retries, args, kwargs)

    def answers(self) -> Mapping[str, Any]:
        has = {"CPU": 2.0}
        return {
            "nodes": lambda: [{"NodeID": self.node.hex(), "Alive": True}],
            "cluster_resources": lambda: has,
            "available_resources": lambda: has,
            "actors": lambda dead: [],
        }


class RunsBeforeItsArguments(Wrong):
    def submit(self, function: Any, args: Any, kwargs: Any) -> Any:
        call = self.call(function, args, kwargs)
        self.begin(call)
        threading.Thread(target=call.run, args=[function.function], daemon=True).start()
        return call.result


class SharesValues(Wrong):
    """Hands out the very value that was put."""

    def put(self, value: Any, weak: bool = False) -> Any:
        ref = super().put(value)
        self.put_values[ref.binary()] = value
        return ref

    put_values: ClassVar[dict[bytes, Any]] = {}

    def get_one(self, ref: Any, timeout: float | None) -> Any:
        return self.put_values.get(ref.binary()) or super().get_one(ref, timeout)


class CancelsNothing(Wrong):
    def cancel(self, ref: Any, force: bool, recursive: bool) -> None:
        return None


class NeverTimesOut(Wrong):
    def get_one(self, ref: Any, timeout: float | None) -> Any:
        return super().get_one(ref, None if timeout == 0.01 else timeout) if ref.is_ready() else None


class WaitsOutOfOrder(Wrong):
    def wait(self, refs: Any, num_returns: int, timeout: float | None, fetch_local: bool) -> Any:
        ready, others = super().wait(refs, num_returns, timeout, fetch_local)
        return ready[::-1], others


class TriesOnce(Wrong):
    def call(self, function: Any, args: Any, kwargs: Any) -> Call:
        return Call(self, function, function.name, 0, args, kwargs)


class LosesTheUsersLine(Wrong):
    def get_one(self, ref: Any, timeout: float | None) -> Any:
        try:
            return super().get_one(ref, timeout)
        except LookupError as error:
            raise TaskError(str(error)) from None


class KnowsNoNode(Wrong):
    def answers(self) -> Mapping[str, Any]:
        return {**super().answers(), "nodes": lambda: []}


class AnswersAll(Wrong):
    def query(self, method: str, *arguments: Any) -> Any:
        return self.answers().get(method, lambda *arguments: None)(*arguments)


class IgnoresGenerators(Wrong):
    def next_item(self, stream: Any, timeout: float | None) -> Any:
        if stream.taken > 2:
            raise StopIteration
        return super().next_item(stream, timeout)


class HasNoEnd(Wrong):
    def close_stream(self, stream: Any) -> None:
        return None


class LeavesThemWaiting(Wrong):
    def end_calls(self) -> Any:
        return None


class IsAlwaysTheSame(Wrong):
    def __init__(self, namespace: str | None) -> None:
        super().__init__(namespace)
        self.node = NodeId(bytes(8))


def suite(runtime: type[Wrong], refuses: bool = True) -> type[EngineConformance]:
    """Return the suite of an engine."""

    def open_session(options: Any) -> Any:
        if refuses:
            refuse_options("wrong", options, honoured=["num_cpus"])
        return OneProcessSession(runtime(options.namespace))

    flags = {"actors": False, "interrupts": False, "limits_cpus": False, "placement_groups": False}
    refused = ({"address": "auto"},)
    return type(
        "Suite", (EngineConformance,), {"make_session": staticmethod(open_session), "refused": refused, **flags}
    )


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a wrong engine never does is not waited for."""
    for module in (engine_suite, engine_tasks, engine_streams, engine_sessions):
        monkeypatch.setattr(module, "PATIENCE_SECONDS", 1.0, raising=False)


WRONG = Wrong.__subclasses__()


@pytest.mark.parametrize("kind", WRONG, ids=lambda kind: kind.__name__)
def test_a_wrong_engine_is_found_out(kind: type[Wrong], impatient: None) -> None:
    assert first_failure(suite(kind)) is not None


def test_options_that_are_ignored_are_found_out(impatient: None) -> None:
    try:
        assert first_failure(suite(Wrong, refuses=False)) == "test_options_that_can_not_be_honoured_are_refused"
    finally:
        kernel.shutdown()


def test_the_right_engine_among_them_passes() -> None:
    assert first_failure(suite(Wrong)) is None
