"""One call of a function or method: what it is given, how it runs, and what becomes of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from kernel.runtime.definitions import DYNAMIC, STREAMING, CallOptions, FunctionDefinition
from kernel.runtime.execution_context import Execution, ExitActor, current_execution
from kernel.runtime.object_entry import FAILED
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.streams import DynamicReturns, ObjectStream, abandoned
from kernel_engine.failures.failures import Failure, failure_of
from kernel_engine.failures.task_error import capture
from kernel_engine.messages.process_messages import USER_ERROR
from kernel_engine.objects.value_placement import inline
from kernel_spec.errors import ActorDiedError

if TYPE_CHECKING:
    from kernel_engine.one_process.objects import OneProcessObjects
    from kernel_spec.ids import ActorId


class CalledActor(Protocol):
    """The actor that a call is of, as errors name it."""

    id: ActorId
    name: str


class Call:
    """A call that has not ended. `result` is what `.remote()` returns, `parent` the task that has submitted it.

    Whoever has failed a call for good sets `cancelled`: it is not begun any more, and a generator goes no further.
    """

    def __init__(
        self, objects: OneProcessObjects, definition: FunctionDefinition | CallOptions, name: str, retries: int,
        args: tuple[Any, ...], kwargs: dict[str, Any], actor: CalledActor | None = None,
    ) -> None:  # fmt: skip
        self._objects = objects
        self._definition = definition
        self.name = name
        self._retries = retries
        self.actor = actor
        self.id = objects.next_id()
        self.parent = current_execution.get().task
        self.method = definition.name
        self.cancelled = False
        self.when_ended: Callable[[], object] = lambda: None
        given: dict[int | str, Any] = dict(enumerate(args))
        given.update(kwargs)
        self._refs = {key: value for key, value in given.items() if type(value) is ObjectRef}
        values = {key: value for key, value in given.items() if key not in self._refs}
        head, buffers, self._held = objects.serializer.dumps(values)
        self._values = inline(head, buffers)
        count = definition.returns
        self.refs = [objects.make(self.id, index) for index in range(count if count >= 0 else 1)]
        self.stream: ObjectStream | None = None
        self.result: Any = (self.refs if count > 1 else self.refs[0]) if count else None
        if count in (STREAMING, DYNAMIC):
            self.stream = ObjectStream(self.id, self.refs[0], definition.backpressure if count == STREAMING else 0)
            self.result = self.stream if count == STREAMING else self.refs[0]

    def when_ready(self, start: Callable[[], None]) -> None:
        """Call `start` as soon as all arguments are there, or have failed."""
        missing = [len(self._refs) + 1]

        def one_less(entry: object = None) -> None:
            with self._objects.changed:
                missing[0] -= 1
            if missing[0] == 0:
                start()

        for ref in self._refs.values():
            self._objects.when_ready(ref._entry, one_less)
        one_less()

    def wait(self) -> None:
        """Block until all arguments are there, or have failed."""
        self._objects.wait_for([ref._entry for ref in self._refs.values()], len(self._refs), None)

    def run(self, function: Callable[..., Any]) -> BaseException | None:
        """Make the call, again if it fails and may; return what it raised in the end."""
        try:
            return self._run(function)
        finally:
            self.when_ended()

    def _run(self, function: Callable[..., Any]) -> BaseException | None:
        failed = next((ref._entry.value for ref in self._refs.values() if ref._entry.state == FAILED), None)
        if self.cancelled:
            return None
        if failed is not None:
            self.fail(failed)
            return None
        again: Any = self._definition.retry_exceptions
        kinds = (Exception if again is True else again) or ()
        attempt = 0
        while True:
            try:
                with _running(Execution(self.id, self.name, attempt)):
                    self._store(self._called(function))
                return None
            except BaseException as error:
                if not isinstance(error, kinds) or attempt == self._retries:
                    self.fail(self.describe(error))
                    return error
            attempt += 1

    def _called(self, function: Callable[..., Any]) -> Any:
        packed = self._values if type(self._values) is tuple else (self._values,)
        given = self._objects.serializer.loads(*packed)
        given.update((key, self._objects.load(ref._entry)) for key, ref in self._refs.items())
        args = [given.pop(index) for index in range(sum(type(key) is int for key in given))]
        return function(*args, **given)

    def _store(self, value: Any) -> None:
        count = self._definition.returns
        if self.stream is not None:
            self._yield_all(value)
            self._objects.fill(self.refs[0], DynamicReturns(self.stream.take_all()) if count == DYNAMIC else None)
            self._finish_stream()
        elif count == 1:
            self._objects.fill(self.refs[0], value)
        elif count > 1:
            values = list(value)
            if len(values) != count:
                raise ValueError(f"{self.name}() has num_returns={count}, but returned {len(values)} values")
            for ref, one in zip(self.refs, values, strict=True):
                self._objects.fill(ref, one)

    def _yield_all(self, generator: Iterable[Any]) -> None:
        stream: Any = self.stream

        def may_go_on() -> bool:
            while abandoned:
                abandoned.popleft().closed = True
            return stream.closed or self.cancelled or not 0 < stream.limit <= stream.received - stream.taken

        for index, value in enumerate(generator, 1):
            ref = self._objects.make(self.id, index)
            self._objects.fill(ref, value)
            with self._objects.changed:
                stream.append(ref, index)
                self._objects.changed.notify_all()
            while not self._objects.wait_until(may_go_on, 0.1):  # nobody tells of a stream that is forgotten
                pass
            if stream.closed or self.cancelled:
                generator.close()  # type: ignore[attr-defined]
                return

    def describe(self, error: BaseException, ends_actor: bool = False) -> Failure:
        """Return an error of the user's code, with its lines, as a failure; with `ends_actor` of all its calls."""
        if self.actor is not None and isinstance(error, (ExitActor, SystemExit)):
            return failure_of(ActorDiedError(f"{self.name}() has ended its actor", actor_id=self.actor.id.hex()))
        here = self._objects
        class_name, id = (self.actor.name, self.actor.id.hex()) if self.actor is not None else (None, "")
        return USER_ERROR, capture(
            error, task_name=self.name, process=here.process[:4].hex(), pid=os.getpid(), node=here.node[:4].hex(),
            actor=class_name, actor_id=id, ends_actor=ends_actor,
        )  # fmt: skip

    def fail(self, failure: Failure) -> None:
        """Have the results raise, those that are not there yet."""
        stream = self.stream
        with self._objects.changed:
            for ref in self.refs:
                self._objects.fail(ref, failure)
            if stream is not None and not stream.finished:
                last = self._objects.make(self.id, stream.received + 1)
                self._objects.fail(last, failure)
                stream.append(last, stream.received + 1)
                self._finish_stream()

    def _finish_stream(self) -> None:
        with self._objects.changed:
            if self.stream is not None and not self.stream.finished:
                self.stream.finish()
            self._objects.changed.notify_all()


@contextmanager
def _running(execution: Execution) -> Iterator[None]:
    token = current_execution.set(execution)
    try:
        yield
    finally:
        current_execution.reset(token)
