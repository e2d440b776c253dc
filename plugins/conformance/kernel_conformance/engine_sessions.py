"""The conformance tests of engines about sessions: how they begin, what is asked of them, and how they end."""

from __future__ import annotations

import os
import threading
from typing import Any

import kernel
from kernel.runtime.interface import Runtime
from kernel_conformance.engine_suite import PATIENCE_SECONDS, EngineSuite, expect, gates, in_thread, until, value_of
from kernel_spec.errors import KernelError, NotInitializedError, OptionError, SessionEndedError


class EngineSessions(EngineSuite):
    """Tests of sessions."""

    def test_a_session_is_described(self) -> None:
        with self.session(namespace="mine") as session:
            runtime: Any = session.runtime
            assert session.runtime is runtime, "the runtime must be the same object for the life of the session"
            for name, kind in (("job", bytes), ("node", bytes), ("process", bytes), ("local_mode", bool)):
                assert isinstance(getattr(runtime, name), kind), f"runtime.{name} is no {kind.__name__}"
            assert len(runtime.process) == 8, "a process id has eight bytes"
            assert runtime.namespace == "mine"
            assert os.path.isabs(runtime.session_directory), "the session has no directory"

    def test_the_runtime_has_every_method_of_the_border(self) -> None:
        wanted = {name for cls in Runtime.__mro__ for name in vars(cls) if not name.startswith("_")}
        with self.session() as session:
            lacking = sorted(name for name in wanted if not hasattr(session.runtime, name))
        assert not lacking, f"the runtime lacks {', '.join(lacking)}"

    def test_the_session_answers_what_it_has(self) -> None:
        with self.session():
            (node,) = kernel.nodes()
            assert node["Alive"] and node["NodeID"] == kernel.get_runtime_context().get_node_id(), node
            total = kernel.cluster_resources()
            assert total["CPU"] == self.options.get("num_cpus", total["CPU"])
            assert set(kernel.available_resources()) <= set(total)
            assert isinstance(kernel.actors(), list)

    def test_a_question_that_nobody_knows_is_refused(self) -> None:
        with self.session() as session:
            error = expect(KernelError, session.runtime.query, "no_such_question")
            assert "no_such_question" in str(error), f"the refusal does not name the question: {error}"

    def test_what_a_reference_waits_for_is_said(self) -> None:
        with self.session():
            assert kernel.explain(kernel.put(1)), "explain() says nothing"

    def test_placement_groups_are_there_or_refused(self) -> None:
        with self.session():
            if self.placement_groups:
                group = kernel.placement_group([{"CPU": 1}])
                assert kernel.wait([group.ready()], timeout=PATIENCE_SECONDS)[1] == []
            else:
                error = expect(KernelError, kernel.placement_group, [{"CPU": 1}])
                assert "placement group" in str(error), f"the refusal does not say what it refuses: {error}"

    def test_options_that_can_not_be_honoured_are_refused(self) -> None:
        for options in self.refused:
            error = expect(OptionError, self.session_of(options).__enter__)
            named = next(iter(options))
            assert named in str(error), f"the refusal does not name {named}: {error}"
            assert not kernel.is_initialized(), f"a session began in spite of {options}"
        with self.session():
            assert value_of(kernel.put(1)) == 1

    def test_values_of_a_class_travel_as_it_was_registered(self) -> None:
        if not self.isolates:
            return
        with self.session():
            kernel.register_serializer(Secret, serializer=lambda secret: None, deserializer=lambda _: Secret("hidden"))
            try:
                assert value_of(kernel.put(Secret("open"))).text == "hidden"
            finally:
                kernel.deregister_serializer(Secret)

    # -- the end ---------------------------------------------------------------------------------------------------

    def test_sessions_follow_each_other(self) -> None:
        ids = set()
        for _ in range(3):
            with self.session() as session:
                ref = kernel.put("gone")
                ids.add(session.runtime.node)
                assert value_of(kernel.remote(abs).remote(-1)) == 1
            assert not kernel.is_initialized()
            error = expect(SessionEndedError, kernel.get, ref)
            assert ref.hex() in str(error)
        assert len(ids) == 3, "sessions share a node's id"

    def test_who_waits_when_the_session_ends_is_told(self) -> None:
        if not self.concurrent:
            return
        with gates("arrived", "gate") as (arrived, gate):
            with self.session():

                @kernel.remote
                def runs() -> None:
                    arrived.open()
                    gate.wait()

                ref = runs.remote()
                until(arrived.is_open, "a task does not begin")
                begun = threading.Semaphore(0)

                def gets() -> None:
                    begun.release()
                    kernel.get(ref)

                def waits() -> None:
                    begun.release()
                    kernel.wait([ref])
                    kernel.get(ref)

                results = [in_thread(gets), in_thread(waits)]
                future = ref.future()
                for _ in results:
                    assert begun.acquire(timeout=PATIENCE_SECONDS)
            for result in results:
                error = result()
                assert isinstance(error, (SessionEndedError, NotInitializedError)), f"it got {error!r}"
            assert isinstance(future.exception(PATIENCE_SECONDS), SessionEndedError), future

    def test_a_forked_child_has_no_session(self) -> None:
        if not self.forks:
            return
        with self.session():
            ref = kernel.remote(abs).remote(-3)
            assert value_of(ref) == 3
            child = os.fork()
            if child == 0:
                try:
                    expect(NotInitializedError, kernel.get_runtime_context)
                    os._exit(0 if not kernel.is_initialized() else 1)
                finally:
                    os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "a forked child believes in a session"
            assert value_of(ref) == 3
            assert value_of(kernel.remote(abs).remote(-4)) == 4


class Secret:
    """Has a text."""

    def __init__(self, text: str) -> None:
        self.text = text
