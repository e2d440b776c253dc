"""What every engine of one process has: objects, names of actors, and an end."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import Any

import pytest

from kernel.runtime.definitions import ActorOptions, ClassDefinition
from kernel.runtime.worker_info import WorkerInfo, local_worker
from kernel.testing.faults import wait_until
from kernel_engine.one_process.actor_names import ActorNames, describe_actor
from kernel_engine.one_process.runtime import OneProcessRuntime, OneProcessSession
from kernel_spec.errors import ArgumentError, GetTimeoutError, NameTakenError, ObjectLostError
from kernel_spec.ids import ActorId, ProcessId, object_id

SECONDS = 120.0


def test_what_was_put_is_got_whatever_its_size(runtime: Any) -> None:
    refs = [runtime.put(value) for value in ("small", b"x" * 1_000_000)]
    assert runtime.get(refs, 0) == ["small", b"x" * 1_000_000]
    assert len(runtime.store.values) == 1
    with pytest.raises(ArgumentError, match=r"put\(ObjectRef\)"):
        runtime.put(refs[0])


def test_an_object_goes_with_its_last_reference(runtime: Any) -> None:
    ref = runtime.put(b"x" * 1_000_000)
    again = runtime.adopt(ref.binary(), runtime.process, "")
    assert again == ref and runtime.owner_of(ref) == (runtime.process, "")
    del ref
    runtime.put(1)
    assert len(runtime.store.values) == 1
    del again
    wait_until(lambda: not runtime.store.values, SECONDS, "the end of the object")  # though the program calls nothing


def test_a_reference_to_what_is_gone_says_so(runtime: Any) -> None:
    lost = runtime.adopt(object_id(runtime.tasks.next_id(), 0), runtime.process, "")
    with pytest.raises(ObjectLostError, match="freed by its owner"):
        runtime.get_one(lost, 0)


def test_the_threads_that_call_are_known_but_the_one_that_looks_after_things(runtime: Any) -> None:
    def janitor() -> Any:
        return next((each for each in threading.enumerate() if each.name == "kernel-by-hand-janitor"), None)

    id = runtime.put("dropped").binary()
    wait_until(lambda: id not in runtime.ownership.objects, SECONDS, "a look of the janitor")
    wait_until(lambda: runtime.callers == {threading.get_ident()}, SECONDS, "the end of the look")
    thread = janitor()
    runtime.shutdown()
    thread.join(SECONDS)
    assert thread.daemon and not thread.is_alive()


def test_what_is_pinned_stays(runtime: Any) -> None:
    ref = runtime.put("pinned")
    id = ref.binary()
    runtime.pin_forever(ref)
    del ref
    runtime.put(1)
    assert id in runtime.ownership.objects


def test_wait_splits_in_the_order_given(runtime: Any) -> None:
    slow, quick = runtime.call(), runtime.call()
    quick.run(lambda: 1)
    refs = [slow.result, quick.result]
    assert runtime.wait(refs, 1, 0, True) == ([quick.result], [slow.result])
    assert runtime.wait(refs, 2, 0.01, True) == ([quick.result], [slow.result])


def test_what_a_reference_waits_for_is_said(runtime: Any) -> None:
    call = runtime.call()
    assert runtime.explain(call.result) == "the task work() has not ended"
    assert runtime.explain(runtime.put(1)) == "it is there"


def test_a_thread_that_waits_is_blocked_until_the_value_is_there() -> None:
    told: list[str] = []

    @contextmanager
    def blocked() -> Any:
        told.append("begins")
        try:
            yield
        finally:
            told.append("ends")

    class Mine(OneProcessRuntime):
        engine = "mine"

    runtime = Mine(None, blocked)
    try:
        from kernel.runtime.definitions import CallOptions
        from kernel_engine.one_process.calls import Call

        call = Call(runtime, CallOptions(name="work"), "work", 0, (), {})
        runtime.begin(call)
        assert runtime.get([runtime.put(1)], None) == [1] and told == []
        with pytest.raises(GetTimeoutError):
            runtime.get([call.result], 0.01)
        assert told == ["begins", "ends"]
        threading.Timer(0.05, call.run, [lambda: "there"]).start()
        assert runtime.get([call.result], SECONDS) == ["there"]
        assert told == ["begins", "ends"] * 2
    finally:
        runtime.shutdown()


def test_a_session_has_a_directory_until_it_ends(runtime: Any) -> None:
    assert os.path.basename(runtime.session_directory).startswith("kernel-by-hand-")
    assert os.path.isdir(runtime.session_directory) and runtime.local_mode
    session = OneProcessSession(runtime)
    assert session.runtime is runtime
    runtime.shutdown()
    session.end()
    assert not os.path.exists(runtime.session_directory)


def test_code_of_an_actor_is_known_by_its_worker(runtime: Any) -> None:
    assert runtime.is_driver and runtime.namespace == "mine" and not runtime.current_actor()
    info = WorkerInfo()
    info.actor, info.namespace, info.description = ActorId(bytes(16)), "the actor's", {"name": "it"}
    token = local_worker.set(info)
    try:
        assert (runtime.is_driver, runtime.namespace) == (False, "the actor's")
        assert (runtime.current_actor(), runtime.describe_current_actor()) == (bytes(16), {"name": "it"})
    finally:
        local_worker.reset(token)


class Counter:
    """Is named."""


def description(name: str, number: int = 1) -> Any:
    definition = ClassDefinition(cls=Counter, name="Counter", methods={}, is_async=False)
    options = ActorOptions(name=name, max_task_retries=2, max_pending_calls=7, detached=True, wanted={})
    return describe_actor(ActorId(bytes([number]) * 16), definition, options, ProcessId(bytes(8)))


def options(name: str, get_if_exists: bool = False) -> ActorOptions:
    return ActorOptions(name=name, get_if_exists=get_if_exists, wanted={})


def test_handles_are_made_from_what_describes_an_actor() -> None:
    assert description("it") == {
        "id": bytes([1]) * 16,
        "definition": ("Counter", {}, False, 2),
        "max_pending_calls": 7,
        "owner": bytes(8),
        "owner_address": "",
        "detached": True,
        "name": "it",
    }


def test_names_are_taken_once_in_each_namespace() -> None:
    names = ActorNames()
    first = description("it")
    names.add("here", first)
    names.add("here", description(""))
    assert names.find("here", "it") is first and names.find("elsewhere", "it") is None
    assert names.existing("elsewhere", options("it")) is None and names.existing("here", options("")) is None
    assert names.existing("here", options("it", get_if_exists=True)) is first
    words = r"^an actor named 'it' lives in namespace 'here'; use get_actor\('it'\), options\(get_if_exists=True\), "
    with pytest.raises(NameTakenError, match=words):
        names.existing("here", options("it"))
    names.add("elsewhere", description("it", 2))
    assert names.rows("here") == [{"namespace": "here", "name": "it"}]
    assert names.rows(None) == [{"namespace": "here", "name": "it"}, {"namespace": "elsewhere", "name": "it"}]
    names.remove("here", description("it", 3))  # of another actor
    assert names.find("here", "it") is first
    names.remove("here", first)
    assert names.find("here", "it") is None and names.rows("here") == []


def test_actors_are_found_by_name_in_the_namespace_that_asks(runtime: Any) -> None:
    named = description("it")
    runtime.names.add("mine", named)
    assert runtime.find_actor("it", None) is named and runtime.find_actor("it", "other") is None
    runtime.names.add("other", description("that", 2))
    assert runtime.list_named_actors(False) == [{"namespace": "mine", "name": "it"}]
    assert len(runtime.list_named_actors(True)) == 2
