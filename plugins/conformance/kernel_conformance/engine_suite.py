"""What an engine may leave out, and what the tests of engines are made of: sessions, gates, and calls that wait."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import kernel
from kernel_spec.engines import EngineSession, OpenEngine, SessionOptions

PATIENCE_SECONDS = 60.0
"""Seconds that anything expected may take."""


class EngineSuite:
    """Says how the engine is opened. The flags below are what an engine may leave out."""

    make_session: OpenEngine
    """Opens a session: what the engine's entry point names."""

    options: Mapping[str, Any] = {"num_cpus": 2}
    """Arguments of `kernel.init`, with which the engine is opened."""
    refused: Sequence[Mapping[str, Any]] = ()
    """Arguments of `kernel.init` that this engine can't honour."""

    concurrent = True
    """Tasks run beside the code that submits them; without this, `.remote()` may return when the task is done."""
    limits_cpus = True
    """No more tasks run at once than there are CPUs for."""
    isolates = True
    """Values are copied as if they went to another process."""
    interrupts = True
    """A running task that is cancelled gets a KeyboardInterrupt; without this it may run to its end, for nothing."""
    retries = True
    """`retry_exceptions` has a task tried again."""
    generators = True
    """Generator tasks and methods yield while they run."""
    actors = True
    """There are actors."""
    async_actors = True
    """`async def` methods of one actor run beside each other; an engine without this refuses such classes."""
    concurrent_actors = True
    """`max_concurrency` has calls of one actor run beside each other; an engine without this refuses the option."""
    restarts = True
    """Actors that died start again; an engine without this refuses `max_restarts`."""
    placement_groups = True
    """There are placement groups; an engine without this refuses them."""
    forks = hasattr(os, "fork")
    """A program may fork while a session is open."""

    def session(self, **options: Any) -> AbstractContextManager[EngineSession]:
        """Begin a session with this engine, with `options` besides those of the suite, and end it.

        What fails in it is meant to: nobody is shown what is not asked for.
        """
        return self.session_of({"show_failures": False, **self.options, **options})

    @contextmanager
    def session_of(self, options: Mapping[str, Any]) -> Iterator[EngineSession]:
        """Begin a session by `kernel.init` with no other options, and end it."""
        opened: list[EngineSession] = []

        def open_session(given: SessionOptions) -> EngineSession:
            opened.append(type(self).make_session(given))
            return opened[0]

        with mock.patch("kernel.api.session.find_engine", lambda name: open_session):
            kernel.init(**options)
        try:
            yield opened[0]
        finally:
            kernel.shutdown()


class Gate:
    """What tasks wait for, in whatever process they are: a file in a directory."""

    def __init__(self, directory: str, name: str = "gate") -> None:
        self._path = os.path.join(directory, name)

    def open(self) -> None:
        """Let all pass."""
        with open(self._path, "w", encoding="utf-8"):
            pass

    def is_open(self) -> bool:
        """Return whether it has been opened."""
        return os.path.exists(self._path)

    def wait(self) -> None:
        """Return once the gate is open."""
        until(self.is_open, "nobody has opened the gate")


@contextmanager
def gates(*names: str) -> Iterator[list[Gate]]:
    """Yield gates that are closed, and open all of them at the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        made = [Gate(directory, name) for name in names]
        try:
            yield made
        finally:
            for gate in made:
                gate.open()


def until(condition: Callable[[], Any], otherwise: str) -> None:
    """Return once `condition()` holds; fail with the words `otherwise` when it takes too long."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.005)


def raised_by(function: Callable[..., Any], *arguments: Any, **named: Any) -> BaseException | None:
    """Return what a call raises, None when it raises nothing."""
    try:
        function(*arguments, **named)
    except BaseException as error:
        return error
    return None


def expect(kind: type[BaseException], function: Callable[..., Any], *arguments: Any, **named: Any) -> BaseException:
    """Return the error of a kind that a call must raise."""
    error = raised_by(function, *arguments, **named)
    called = getattr(function, "__qualname__", repr(function))
    assert isinstance(error, kind), f"{called} should have raised {kind.__name__}, and raised {error!r}"
    return error


def value_of(refs: Any) -> Any:
    """Return what `kernel.get` does; fail instead of waiting for ever."""
    return kernel.get(refs, timeout=PATIENCE_SECONDS)


def in_thread(function: Callable[[], Any]) -> Callable[[], BaseException | None]:
    """Start a call in a thread; return what waits for it and says what it raised."""
    raised: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: raised.append(raised_by(function)), daemon=True)
    thread.start()

    def result() -> BaseException | None:
        thread.join(PATIENCE_SECONDS)
        assert raised, "a call that waited goes on waiting"
        return raised[0]

    return result
