"""A pool of actors that share work: `ActorPool([a, b]).map(lambda actor, value: actor.work.remote(value), values)`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import kernel
from kernel.exceptions import ActorDiedError, UsageError, WorkerDiedError
from kernel_parallel.actor_pool_state import ActorPoolState

Call = Callable[[Any, Any], Any]
"""`function(actor, value)` makes a call of the actor and returns its reference."""


class ActorPool:
    """Gives each submission to an actor that is idle, and keeps the others waiting.

    A call that raises frees its actor, and the error is raised where its result is taken. An actor that is dead for
    good leaves the pool, the others go on. Work moves on whenever a method of the pool is called. Not for several
    threads at once.
    """

    def __init__(self, actors: Iterable[Any]) -> None:
        self._state = ActorPoolState(list(actors))
        self._refs: dict[int, kernel.ObjectRef] = {}
        self._outcomes: dict[int, tuple[bool, Any]] = {}
        """True and the result, or False and the error, of what is over and not taken."""
        self._mapped: set[int] = set()
        """Submissions of `map`, which `get_next` does not take."""

    # -- everything at once ----------------------------------------------------------------------------------------

    def map(self, fn: Call, values: Iterable[Any]) -> Iterator[Any]:
        """Return an iterator over the results of `fn(actor, value)`, in their order; all are submitted now."""
        numbers = self._submit_all(fn, values)

        def results() -> Iterator[Any]:
            for number in numbers:
                self._wait_for(lambda number=number: number in self._state.done, None)  # type: ignore[misc]
                yield self._take(number)

        return results()

    def map_unordered(self, fn: Call, values: Iterable[Any]) -> Iterator[Any]:
        """As `map`, but in the order in which results are ready."""
        numbers = dict.fromkeys(self._submit_all(fn, values))

        def results() -> Iterator[Any]:
            while numbers:
                self._wait_for(lambda: any(number in numbers for number in self._state.done), None)
                number = next(number for number in self._state.done if number in numbers)
                del numbers[number]
                yield self._take(number)

        return results()

    def _submit_all(self, fn: Call, values: Iterable[Any]) -> list[int]:
        numbers = []
        for value in values:
            number = self._state.submit((fn, value))
            self._mapped.add(number)
            numbers.append(number)
            self._start(raises=number)
        return numbers

    # -- one by one ------------------------------------------------------------------------------------------------

    def submit(self, fn: Call, value: Any) -> None:
        """Call `fn(actor, value)` with an idle actor, at once or as soon as there is one."""
        self._look()
        number = self._state.submit((fn, value))
        self._start(raises=number)

    def has_next(self) -> bool:
        """Return whether there is a result that was submitted and not taken."""
        return bool(self._mine(self._state.open()))

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Return the next result in the order of submission, or raise what its call raised.

        Raises StopIteration when there is none, TimeoutError after `timeout` seconds; with `ignore_if_timedout` that
        result is given up, and its actor free.
        """
        waiting = self._mine(self._state.open())
        if not waiting:
            raise StopIteration("No more results to get")
        number = waiting[0]
        if not self._wait_for(lambda: number in self._state.done, timeout):
            text = f"no result of submission {number} after {timeout} s"
            if ignore_if_timedout:
                self._state.forget(number)
                self._refs.pop(number, None)
                self._start()
                text += "; it is given up"
            raise TimeoutError(text)
        return self._take(number)

    def get_next_unordered(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Return any result that is ready, or raise what its call raised.

        Raises StopIteration when there is none to come, TimeoutError when none is ready after `timeout` seconds; with
        `ignore_if_timedout` the oldest one is given up.
        """
        waiting = self._mine(self._state.open())
        if not waiting:
            raise StopIteration("No more results to get")
        if not self._wait_for(lambda: bool(self._mine(self._state.done)), timeout):
            text = f"none of {len(waiting)} results after {timeout} s"
            if ignore_if_timedout:
                self._state.forget(waiting[0])
                self._refs.pop(waiting[0], None)
                self._start()
                text += f"; submission {waiting[0]} is given up"
            raise TimeoutError(text)
        return self._take(self._mine(self._state.done)[0])

    # -- actors ----------------------------------------------------------------------------------------------------

    def has_free(self) -> bool:
        """Return whether an actor is idle and nothing waits for one."""
        self._look()
        return bool(self._state.idle) and not self._state.pending

    def pop_idle(self) -> Any:
        """Remove and return an idle actor; None if there is none."""
        return self._state.idle.popleft() if self.has_free() else None

    def push(self, actor: Any) -> None:
        """Add an actor. Raises ValueError when it is in the pool already."""
        if actor in self._state.members():
            raise ValueError(f"{actor!r} belongs to the pool already")
        self._state.idle.append(actor)
        self._start()

    # -- moving on -------------------------------------------------------------------------------------------------

    def _mine(self, numbers: Iterable[int]) -> list[int]:
        return [number for number in numbers if number not in self._mapped]

    def _start(self, raises: int = -1) -> None:
        """Start what can be; an error of submission `raises` itself is raised, others are its result."""
        while (started := self._state.start()) is not None:
            number, (fn, value), actor = started
            try:
                ref = fn(actor, value)
                if not isinstance(ref, kernel.ObjectRef):
                    raise UsageError(
                        f"the function of an ActorPool must return the reference of a call, as in lambda actor, value: "
                        f"actor.method.remote(value); it returned a {type(ref).__name__}"
                    )
                self._refs[number] = ref
            except Exception as error:
                self._state.finish(number)
                if number == raises:
                    self._state.take(number)
                    self._mapped.discard(number)
                    raise
                self._outcomes[number] = (False, error)

    def _look(self) -> None:
        """Take note of what has ended, and start what waits."""
        self._wait_for(lambda: True, 0)

    def _wait_for(self, reached: Callable[[], bool], timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        self._note([self._refs[number] for number in self._state.running if self._refs[number].is_ready()])
        while not reached():
            refs = [self._refs[number] for number in self._state.running]
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = kernel.wait(refs, timeout=left, fetch_local=False)[0] if refs else []
            self._note(ready)
            if not ready and not reached():
                return False
        return True

    def _note(self, ready: list[kernel.ObjectRef]) -> None:
        ended = set(ready)
        for number in [number for number in self._state.running if self._refs[number] in ended]:
            alive = True
            try:
                self._outcomes[number] = (True, kernel.get(self._refs.pop(number)))
            except Exception as error:
                self._outcomes[number] = (False, error)
                alive = not isinstance(error, ActorDiedError)
            self._state.finish(number, alive)
        self._start()
        for number in self._state.hopeless():
            hopeless = WorkerDiedError("all actors of the pool are dead; give it others by push(actor)")
            self._outcomes[number] = (False, hopeless)

    def _take(self, number: int) -> Any:
        self._state.take(number)
        self._mapped.discard(number)
        ok, value = self._outcomes.pop(number)
        if not ok:
            raise value
        return value
