"""Engines whose actors are wrong, each by one mistake, and the check of the suite that must see it.

Those of `Threads` run each actor in a thread, those of `LocalRuntime` are local mode, whose actors start again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from typing import Any

from kernel_local_mode.actor import LocalActor
from kernel_local_mode.runtime import LocalRuntime

from kernel.runtime.definitions import CallOptions
from kernel.runtime.execution_context import ExitActor
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.worker_info import WorkerInfo, local_worker
from kernel_engine.failures.failures import Failure, failure_of
from kernel_engine.one_process.actor_names import describe_actor
from kernel_engine.one_process.calls import Call
from kernel_engine.one_process.runtime import OneProcessRuntime
from kernel_spec.errors import ActorDiedError, NameTakenError
from kernel_spec.ids import ActorId

ORDER = "test_an_actor_keeps_its_state_and_the_order_of_calls"
CONSTRUCTOR = "test_a_constructor_that_raises_fails_all_calls"
RAISES = "test_a_method_that_raises_leaves_the_actor_alive"
LEAVES = "test_an_actor_can_leave"
KILLED = "test_an_actor_that_is_killed_answers_no_more"
LAST_HANDLE = "test_an_actor_ends_with_its_last_handle_after_its_calls"
DETACHED = "test_a_detached_actor_needs_no_handle"
NAMED = "test_an_actor_is_found_by_its_name"
ITSELF = "test_code_of_an_actor_knows_it"
TRAVELS = "test_handles_travel"
COROUTINES = "test_coroutines_of_an_actor_run_beside_each_other_or_are_refused"
BESIDE = "test_threads_of_an_actor_run_beside_each_other_or_are_refused"
RESTARTS = "test_an_actor_starts_again_or_that_is_refused"


class Actor:
    """An instance, and a thread that makes its calls in order."""

    def __init__(self, engine: Threads, definition: Any, options: Any, namespace: str, creation: Call) -> None:
        self.id, self.name, self.namespace = ActorId(creation.id), definition.name, namespace
        self.definition, self.options, self.engine = definition, options, engine
        self.description = describe_actor(self.id, definition, options, engine.process)
        self.failure: Failure | None = None
        self.calls: SimpleQueue[Call | None] = SimpleQueue()
        self.instance: Any = None
        self.constructed = threading.Event()
        """Is set when nothing of the actor's creation is left, which counts as a handle while it goes on."""
        creation.actor = self
        if not engine.lives_on(options):
            creation.when_dropped(lambda: engine.no_handles(self))
        threading.Thread(target=self.work, args=[[creation]], daemon=True).start()

    def work(self, creation: list[Call]) -> None:
        info = WorkerInfo()
        self.engine.introduce(self, info)
        local_worker.set(info)
        self.construct(creation.pop())
        self.constructed.set()
        while self.failure is None and (call := self.calls.get()) is not None:
            call.wait()
            method = call.method
            error = call.run(lambda *args, **kwargs: getattr(self.instance, method)(*args, **kwargs))  # noqa: B023
            self.engine.raised(self, error)
            del call
        self.end("all handles to it are gone")

    def construct(self, creation: Call) -> None:
        def make(*args: Any, **kwargs: Any) -> None:
            self.instance = self.engine.instance(self.definition, args, kwargs)

        creation.wait()
        error = creation.run(make)
        if error is not None:
            self.engine.not_constructed(self, creation, error)

    def end(self, cause: str, failure: Failure | None = None) -> None:
        if self.failure is None:
            self.failure = failure or failure_of(ActorDiedError(f"{self.name} is dead: {cause}"))
            self.engine.ended(self)
            self.calls.put(None)


class Threads(OneProcessRuntime):
    """Right: each task and each actor in a thread of its own."""

    engine = "wrong"

    def __init__(self, namespace: str | None) -> None:
        super().__init__(namespace)
        self.actors: dict[bytes, Actor] = {}

    def submit(self, function: Any, args: Any, kwargs: Any) -> Any:
        call = Call(self, function, function.name, function.max_retries, args, kwargs)
        self.begin(call)
        call.when_ready(threading.Thread(target=call.run, args=[function.function], daemon=True).start)
        return call.result

    def create_actor(self, definition: Any, options: Any, args: Any, kwargs: Any) -> Any:
        self.refuse_what_is_lacking(definition, options)
        creation = Call(self, CallOptions(name="__init__"), f"{definition.name}.__init__", 0, args, kwargs)
        namespace = options.namespace or self.namespace
        with self.lock:
            existing = self.names.existing(namespace, options)
            if existing is not None:
                return existing["id"], None, existing
            self.begin(creation)
            actor = self.actors[ActorId(creation.id)] = Actor(self, definition, options, namespace, creation)
            self.names.add(namespace, actor.description)
        return actor.id, creation.result, None

    def call_actor(self, actor: Any, method: str, options: Any, args: Any, kwargs: Any) -> Any:
        known = self.actors[actor]
        call = Call(self, options, f"{known.name}.{method}", options.max_task_retries, args, kwargs, known)
        with self.lock:
            self.begin(call)
            if known.failure is None:
                self.accept(known, call)
            else:
                self.break_call(call, known.failure)
        return call.result

    def kill_actor(self, actor: Any, no_restart: bool) -> None:
        self.actors[actor].end("it was killed")

    def answers(self) -> Mapping[str, Any]:
        return {}

    # -- what the wrong ones do otherwise --------------------------------------------------------------------------

    def refuse_what_is_lacking(self, definition: Any, options: Any) -> None:
        wishes = {"max_restarts": options.max_restarts, "async def": definition.is_async}
        self.refuse_wishes(
            definition.name, options, max_concurrency=options.max_concurrency > 1 and options.max_concurrency, **wishes
        )

    def lives_on(self, options: Any) -> bool:
        return bool(options.detached)

    def introduce(self, actor: Actor, info: WorkerInfo) -> None:
        info.actor, info.actor_name, info.namespace = actor.id, actor.name, actor.namespace
        info.description = actor.description

    def instance(self, definition: Any, args: Any, kwargs: Any) -> Any:
        return definition.cls(*args, **kwargs)

    def not_constructed(self, actor: Actor, creation: Call, error: BaseException) -> None:
        actor.end("its constructor raised", creation.describe(error, ends_actor=True))

    def accept(self, actor: Actor, call: Call) -> None:
        actor.calls.put(call)

    def raised(self, actor: Actor, error: BaseException | None) -> None:
        if isinstance(error, (ExitActor, SystemExit)):
            actor.end("it has called exit_actor()")

    def no_handles(self, actor: Actor) -> None:
        actor.calls.put(None)

    def ended(self, actor: Actor) -> None:
        with self.lock:
            self.names.remove(actor.namespace, actor.description)
            if actor.failure is not None:
                self.break_calls(actor, actor.failure)


class LosesTheOrder(Threads):
    check = ORDER

    def accept(self, actor: Actor, call: Call) -> None:
        call.when_ready(lambda: actor.calls.put(call))


class SharesAnInstance(Threads):
    check = ORDER

    def __init__(self, namespace: str | None) -> None:
        super().__init__(namespace)
        self.made: dict[Any, Any] = {}

    def instance(self, definition: Any, args: Any, kwargs: Any) -> Any:
        return self.made.setdefault(definition.name, super().instance(definition, args, kwargs))


class SwallowsTheConstructorsError(Threads):
    check = CONSTRUCTOR

    def not_constructed(self, actor: Actor, creation: Call, error: BaseException) -> None:
        actor.instance = actor.definition.cls()


class HidesTheConstructorsError(Threads):
    check = CONSTRUCTOR

    def not_constructed(self, actor: Actor, creation: Call, error: BaseException) -> None:
        actor.end("its constructor raised")


class DiesOfAnyError(Threads):
    check = RAISES

    def raised(self, actor: Actor, error: BaseException | None) -> None:
        if error is not None:
            actor.end("a method raised")


class NeverLeaves(Threads):
    check = LEAVES

    def raised(self, actor: Actor, error: BaseException | None) -> None:
        return None


class KillsNothing(Threads):
    check = KILLED

    def kill_actor(self, actor: Any, no_restart: bool) -> None:
        return None


class LeavesCallsOfTheKilledWaiting(Threads):
    check = KILLED

    def ended(self, actor: Actor) -> None:
        with self.lock:
            self.names.remove(actor.namespace, actor.description)


class LeaksNames(Threads):
    check = LAST_HANDLE

    def ended(self, actor: Actor) -> None:
        if actor.failure is not None:
            self.break_calls(actor, actor.failure)


class LivesWithoutHandles(Threads):
    check = LAST_HANDLE

    def lives_on(self, options: Any) -> bool:
        return True


class EndsBeforeItsCalls(Threads):
    """Begins calls when a result is asked for, which is right, and ends an actor whose calls wait, which is not."""

    check = LAST_HANDLE

    def __init__(self, namespace: str | None) -> None:
        super().__init__(namespace)
        self.held: list[tuple[Actor, Call]] = []

    def accept(self, actor: Actor, call: Call) -> None:
        self.held.append((actor, call))

    def no_handles(self, actor: Actor) -> None:
        actor.end("all handles to it are gone")

    def get(self, refs: Sequence[ObjectRef], timeout: float | None) -> list[Any]:
        held, self.held = self.held, []
        for actor, _ in held:
            actor.constructed.wait()
        self._drain()  # The handles that the program has dropped are gone before any call begins.
        for actor, call in held:
            actor.calls.put(call)
        return super().get(refs, timeout)


class EndsTheDetached(Threads):
    check = DETACHED

    def lives_on(self, options: Any) -> bool:
        return False


class FindsNamesInAnyNamespace(Threads):
    check = NAMED

    def find_actor(self, name: str, namespace: str | None) -> Any:
        found = [actor for actor in self.actors.values() if actor.description["name"] == name and not actor.failure]
        return found[0].description if found else None


class GivesANameTwice(Threads):
    check = NAMED

    def create_actor(self, definition: Any, options: Any, args: Any, kwargs: Any) -> Any:
        try:
            return super().create_actor(definition, options, args, kwargs)
        except NameTakenError:
            options.name = ""
            return super().create_actor(definition, options, args, kwargs)


class MakesAnotherInsteadOfTheOneThatExists(Threads):
    check = NAMED

    def create_actor(self, definition: Any, options: Any, args: Any, kwargs: Any) -> Any:
        if options.get_if_exists:
            options.name = ""
        return super().create_actor(definition, options, args, kwargs)


class DoesNotKnowItself(Threads):
    check = ITSELF

    def introduce(self, actor: Actor, info: WorkerInfo) -> None:
        return None


class RunsCoroutinesAsFunctions(Threads):
    check = COROUTINES

    def refuse_what_is_lacking(self, definition: Any, options: Any) -> None:
        self.refuse_wishes(definition.name, options, max_restarts=options.max_restarts, max_concurrency=False)


class IgnoresTheConcurrencyThatIsAskedFor(Threads):
    check = BESIDE

    def refuse_what_is_lacking(self, definition: Any, options: Any) -> None:
        wishes = {"max_restarts": options.max_restarts, "async def": definition.is_async}
        self.refuse_wishes(definition.name, options, **wishes)


class IgnoresMaxRestarts(Threads):
    check = RESTARTS

    def refuse_what_is_lacking(self, definition: Any, options: Any) -> None:
        if options.max_restarts == 0:
            super().refuse_what_is_lacking(definition, options)


# -- those that start again ----------------------------------------------------------------------------------------


class NeverStartsAgain(LocalRuntime):
    check = RESTARTS

    def kill_actor(self, actor: Any, no_restart: bool) -> None:
        super().kill_actor(actor, True)


class StartsTheKilledAgain(LocalRuntime):
    check = RESTARTS

    def kill_actor(self, actor: Any, no_restart: bool) -> None:
        super().kill_actor(actor, False)


class StartsAgainForEver(LocalRuntime):
    check = RESTARTS

    def create_actor(self, definition: Any, options: Any, args: Any, kwargs: Any) -> Any:
        options.max_restarts = -1 if options.max_restarts else 0
        return super().create_actor(definition, options, args, kwargs)


class ForgetsTheArguments(LocalRuntime):
    check = RESTARTS

    def kill_actor(self, actor: Any, no_restart: bool) -> None:
        self.actors.actors[actor].creation.arguments = None
        super().kill_actor(actor, no_restart)


class KeepsTheState(LocalRuntime):
    check = RESTARTS

    def kill_actor(self, actor: Any, no_restart: bool) -> None:
        known: LocalActor = self.actors.actors[actor]
        before = dict(vars(known.instance))
        super().kill_actor(actor, no_restart)
        if known.instance is not None:
            vars(known.instance).update(before)


class RunsCoroutinesOneAfterAnother(LocalRuntime):
    check = COROUTINES

    def create_actor(self, definition: Any, options: Any, args: Any, kwargs: Any) -> Any:
        options.max_concurrency = 1
        return super().create_actor(definition, options, args, kwargs)


class RunsCallsOneAfterAnother(LocalRuntime):
    check = BESIDE

    def create_actor(self, definition: Any, options: Any, args: Any, kwargs: Any) -> Any:
        if not definition.is_async:
            options.max_concurrency = 1
        return super().create_actor(definition, options, args, kwargs)
