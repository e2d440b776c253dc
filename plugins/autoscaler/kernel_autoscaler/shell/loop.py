"""Observe the cluster, decide, and carry out: the loop of the autoscaler's process."""

from __future__ import annotations

import json
import queue
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import structlog

from kernel_autoscaler.core import events
from kernel_autoscaler.core.autoscaler import Autoscaler
from kernel_autoscaler.core.shown import shown
from kernel_autoscaler.core.snapshot import snapshot_of
from kernel_autoscaler.shell.provider_calls import ProviderCalls
from kernel_spec.errors import KernelError

LOOK_SECONDS, LIST_SECONDS = 1.0, 10.0
SHOWN_DECISIONS = 50
_log = structlog.get_logger("kernel.autoscaler")


class ScaledSession(Protocol):
    """What the loop needs of the session."""

    def demand(self) -> Mapping[str, Any]:
        """Return the head's answer to "demand"."""

    def drain(self, node: str, seconds: float | None) -> None:
        """Let a node leave."""

    def keep(self, node: str) -> None:
        """Cancel the drain of a node."""

    def write(self, key: str, value: bytes) -> None:
        """Keep a value in the session's metadata."""

    def read(self, key: str) -> bytes | None:
        """Return a kept value."""


class Loop:
    """Runs `autoscaler`. `clock` returns seconds since the epoch that never go back."""

    def __init__(
        self, autoscaler: Autoscaler, cluster: ScaledSession, provider: str, clock: Callable[[], float]
    ) -> None:
        self._autoscaler = autoscaler
        self._cluster = cluster
        self._provider = provider
        self._clock = clock
        self._inbox: queue.SimpleQueue[events.Event | events.LookAgain | None] = queue.SimpleQueue()
        self._decisions: deque[dict[str, Any]] = deque(maxlen=SHOWN_DECISIONS)
        self._written = self._shown = b""
        self._look_at = self._list_at = 0.0
        self._ending = False
        self.calls: ProviderCalls

    def tell(self, event: events.Event) -> None:
        """Take an event in, from any thread."""
        self._inbox.put(event)

    def look(self) -> None:
        """Observe the cluster at once, from any thread: something new waits there."""
        self._inbox.put(events.LookAgain(0.0))

    def end(self) -> None:
        """Let `run` return, from any thread."""
        self._inbox.put(None)

    def run(self) -> None:
        """Scale the cluster until `end` is called. Machines stay."""
        known = self._cluster.read("state")
        if known is not None:
            self._carry_out(self._autoscaler.restore(json.loads(known)))
        while not self._ending:
            self._step()

    def _step(self) -> None:
        now = self._clock()
        due = min(self._look_at, self._list_at)
        try:
            event = self._inbox.get(timeout=max(0.0, due - now)) if due > now else self._inbox.get_nowait()
        except queue.Empty:
            self._what_is_due()
            return
        if event is None:
            self._ending = True
        elif isinstance(event, events.LookAgain):
            self._do(event)
        else:
            self._handle(event)

    def _what_is_due(self) -> None:
        now = self._clock()
        self.calls.check()
        if now >= self._list_at:
            self._list_at = now + LIST_SECONDS
            self.calls.list()
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            try:
                answer = self._cluster.demand()
            except KernelError as error:  # The head is away: nothing is known, and nothing is done.
                _log.debug("the head does not answer", error=str(error))
                return
            self._handle(events.Observed(snapshot_of(answer)))

    def _handle(self, event: events.Event) -> None:
        self._carry_out(self._autoscaler.handle(event, self._clock()))

    def _carry_out(self, steps: Iterable[events.Instruction]) -> None:
        steps = list(steps)
        for step in steps:
            self._note(step)
        self._write()
        for step in steps:
            try:
                self._do(step)
            except KernelError as error:
                _log.warning("a step of the autoscaler failed", step=str(step), error=str(error))

    def _do(self, step: events.Instruction) -> None:
        match step:
            case events.MakeMachines():
                self.calls.create(step)
            case events.Terminate(ids):
                self.calls.terminate(ids)
            case events.Drain(node, _, seconds):
                self._cluster.drain(node, seconds)
            case events.KeepNode(node):
                self._cluster.keep(node)
            case events.ListMachines():
                self._list_at = min(self._list_at, self._clock() + 1.0)
            case events.LookAgain(seconds):
                self._look_at = min(self._look_at, self._clock() + seconds)

    def _note(self, step: events.Instruction) -> None:
        said = _words(step)
        if said:
            self._decisions.append({"at": self._clock(), "what": said[0], "why": said[1]})
            _log.info(said[0], why=said[1])

    def _write(self) -> None:
        """Write the state, if it has changed, before anything is done in the world, and what people are to see."""
        state = self._autoscaler.plain()
        spent, idle = state.pop("spent"), state.pop("spent_idle")
        text = json.dumps(state).encode()
        status = json.dumps(
            {**shown(self._autoscaler, self._clock()), "provider": self._provider, "decisions": list(self._decisions)}
        ).encode()
        if text != self._written:
            self._cluster.write("state", json.dumps({**state, "spent": spent, "spent_idle": idle}).encode())
            self._written = text
        if status != self._shown:
            self._cluster.write("status", status)
            self._shown = status


def _words(step: events.Instruction) -> tuple[str, str] | None:
    match step:
        case events.MakeMachines(kind, count, _, why):
            return f"make {count} x {kind}", why
        case events.Drain(node, why):
            return f"drain node {node[:8]}", why
        case events.KeepNode(node, why):
            return f"keep node {node[:8]}", why
        case events.Terminate(ids, why):
            return f"end {', '.join(ids)}", why
    return None
