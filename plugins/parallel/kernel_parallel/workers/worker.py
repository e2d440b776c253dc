"""The actor in a worker process: it applies functions to chunks.

Exceptions of functions are returned as results, so a failed call means that the worker died.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.pool import MaybeEncodingError
from typing import Any

import kernel
from kernel import exit_actor, get_runtime_context, method
from kernel.exceptions import SerializationError, WorkerDiedError
from kernel_parallel.workers.jobs import CALL, MAP
from kernel_parallel.workers.modules import SharedModules
from kernel_parallel.workers.payload import Payload, pack, unpack

KNOWN_FUNCTIONS = 256
"""How many functions a worker keeps; the sender forgets the oldest at the same number."""

Outcome = tuple[bool, Any]
"""True and the results, or False and the error with its traceback as text."""


CONTROL = "control"
"""The concurrency group of what is asked of a worker while it works."""


class MessageProgress:
    """How many chunks of the newest message have begun, and which messages are to begin no more. For two threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = -1
        self._begun = 0
        self._stopped: set[int] = set()

    def begin(self, number: int) -> bool:
        """Note that the next chunk of a message begins; return False if it must not."""
        with self._lock:
            if number != self._number:
                self._number, self._begun = number, 0
                self._stopped = {stopped for stopped in self._stopped if stopped >= number}
            if number in self._stopped:
                return False
            self._begun += 1
            return True

    def stop(self, number: int) -> int:
        """Let no more chunks of a message begin; return how many have. What has been answered is left as it is."""
        with self._lock:
            if number < self._number:
                return sys.maxsize
            self._stopped.add(number)
            return self._begun if number == self._number else 0


class PoolWorker:
    """Applies functions to chunks. What the initializer raises, every chunk raises."""

    def __init__(self, initializer: Callable[..., Any] | None, initargs: tuple[Any, ...]) -> None:
        self._functions: dict[int, Callable[..., Any]] = {}
        self._modules = SharedModules()
        self._progress = MessageProgress()
        self._broken: tuple[BaseException, str] | None = None
        if initializer is not None:
            try:
                self._modules.adopt(initializer)(*initargs)
            except Exception as error:
                self._broken = (error, traceback.format_exc())

    def pid(self) -> int:
        """Return the process id."""
        return os.getpid()

    def node(self) -> str:
        """Return the id of the node."""
        return get_runtime_context().get_node_id()

    def leave(self) -> None:
        """End the process, after its exit handlers."""
        exit_actor()

    def run(self, number: int, key: int, function: Callable[..., Any] | None, how: str, payload: Payload) -> Payload:
        """Apply a function to chunks; it is kept under its key unless that is negative, and None is the one kept.

        Messages are numbered, upwards. Returns, packed, the seconds that it took and an `Outcome` for each chunk that
        was not given back, or one for all.
        """
        begun = time.perf_counter()
        try:
            if function is not None:
                function = self._modules.adopt(function)
            if key >= 0:
                function = self._function(key, function)
            assert function is not None
            chunks = unpack(payload)
        except BaseException as error:  # what arguments raise when they are unpickled
            return ((0.0, (False, (error, traceback.format_exc()))),)
        outcomes = []
        for items in chunks:
            if not self._progress.begin(number):
                break
            outcomes.append(self._outcome(function, how, items))
        answer = pack((time.perf_counter() - begun, outcomes))
        if len(outcomes) > 1 and not isinstance(answer, bytes):
            answer = ((time.perf_counter() - begun, [_sendable(outcome) for outcome in outcomes]),)
        return answer

    @method(concurrency_group=CONTROL)
    def give_back(self, number: int) -> int:
        """Give back the chunks of a message that have not begun; return how many have, or all if it is over."""
        return self._progress.stop(number)

    def _outcome(self, function: Callable[..., Any], how: str, items: Any) -> Outcome:
        if self._broken is not None:
            return False, self._broken
        try:
            if how == CALL:
                args, kwargs = items
                return True, function(*args, **kwargs)
            if how == MAP:
                return True, list(map(function, items))
            return True, [function(*item) for item in items]
        except SystemExit as error:
            died = WorkerDiedError(f"{name_of(function)}() called sys.exit({error.code!r}) in a worker of the pool")
            return False, (died, traceback.format_exc())
        except BaseException as error:
            return False, (error, traceback.format_exc())

    def _function(self, key: int, function: Callable[..., Any] | None) -> Callable[..., Any]:
        if function is None:
            return self._functions[key]
        if len(self._functions) >= KNOWN_FUNCTIONS:
            del self._functions[next(iter(self._functions))]
        self._functions[key] = function
        return function


def name_of(function: Any) -> str:
    """Return what to call a function in messages."""
    return getattr(function, "__qualname__", None) or type(function).__name__


def _sendable(outcome: Outcome) -> Outcome:
    """Return an outcome, or the error that it can't leave the process, so that it spoils none beside it."""
    try:
        kernel.put(outcome)
    except SerializationError as error:
        return False, (MaybeEncodingError(error, outcome[1]), "")  # type: ignore[no-untyped-call]
    return outcome
