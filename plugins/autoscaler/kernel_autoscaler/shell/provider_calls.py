"""Call a node provider in a thread of its own: a call may take minutes, and must not keep decisions waiting."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_autoscaler.core import events
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import UNKNOWN, NodeProvider, TellsInterruptions

CALL_SECONDS = 180.0
"""Seconds after which a call counts as failed with an unknown outcome; the next one gets another thread."""


class ProviderCalls:
    """Calls `provider`, one call after the other, and gives what comes of each to `tell`, from its thread.

    `join` is what new nodes are told for joining. `clock` returns seconds.
    """

    def __init__(
        self,
        provider: NodeProvider,
        join: Mapping[str, Any],
        with_token: bool,
        tell: Callable[[events.Event], None],
        clock: Callable[[], float],
    ) -> None:
        self._provider: Any = provider
        self._join = join
        self._with_token = with_token
        self._tell = tell
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: queue.SimpleQueue[tuple[Callable[[], events.Event | None], Callable[[str], events.Event | None]]]
        self._calls = queue.SimpleQueue()
        self._lists = False
        self._running: tuple[int, float, Callable[[str], events.Event | None]] | None = None
        self._generation = 0
        self._begin()

    def create(self, step: events.MakeMachines) -> None:
        """Make machines; `Created` or `CreateFailed` follows."""
        more = {"token": step.token} if self._with_token else {}

        def call() -> events.Event:
            try:
                ids = self._provider.create(step.kind, step.count, self._join, **more)
            except NodeProviderError as error:
                return events.CreateFailed(step.token, error.code, str(error), error.retry_after)
            return events.Created(step.token, tuple(ids))

        self._calls.put((call, lambda problem: events.CreateFailed(step.token, UNKNOWN, problem)))

    def terminate(self, ids: Sequence[str]) -> None:
        """End machines; `TerminateFailed` follows if that fails."""

        def call() -> events.Event | None:
            try:
                self._provider.terminate(ids)
            except NodeProviderError as error:
                return events.TerminateFailed(tuple(ids), str(error))
            return None

        self._calls.put((call, lambda problem: events.TerminateFailed(tuple(ids), problem)))

    def list(self) -> None:
        """Ask for the list, unless that was asked for and has not come yet; `Listed` follows, or nothing."""
        if self._lists:
            return
        self._lists = True

        def call() -> events.Event | None:
            self._lists = False
            if isinstance(self._provider, TellsInterruptions):
                for one in self._provider.events():
                    self._tell(events.InterruptionAnnounced(one.id, one.seconds, one.reason))
            try:
                return events.Listed(tuple(self._provider.list()))
            except NodeProviderError:
                return None

        self._calls.put((call, lambda problem: None))

    def check(self) -> None:
        """Give up a call that takes too long. Called now and then."""
        with self._lock:
            running = self._running
            if running is None or self._clock() - running[1] < CALL_SECONDS:
                return
            self._running = None
            self._lists = False
            self._begin()
        event = running[2](f"the node provider has not answered for {CALL_SECONDS:.0f} s")
        if event is not None:
            self._tell(event)

    def _begin(self) -> None:
        self._generation += 1
        mine = self._generation
        threading.Thread(target=lambda: self._work(mine), name="node provider", daemon=True).start()

    def _work(self, mine: int) -> None:
        while self._generation == mine:
            call, failed = self._calls.get()
            with self._lock:
                self._running = mine, self._clock(), failed
            try:
                event = call()
            except Exception as error:  # a provider that breaks its contract
                event = failed(f"the node provider {self._provider.name!r} raised {type(error).__name__}: {error}")
            with self._lock:
                if self._generation != mine:
                    return  # It was given up: what it says is not expected any more.
                self._running = None
            if event is not None:
                self._tell(event)
