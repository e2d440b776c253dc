"""Decide which source is asked for which bytes of one pull. Without sockets, clocks or threads.

A source is *given* with the request for the object, or *recommended* by another source that is busy. Given sources are
tried first and used together. A source that recommends others is not asked for a while. A recommended source is used
only while no other delivers, one at a time: so a broadcast becomes a tree instead of a crowd around the root.

Every ask is answered by exactly one event that names it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kernel_network_tcp.transfer.limits import HISTORY_EVENTS, TransferLimits
from kernel_network_tcp.transfer.ranges import Ranges
from kernel_spec.dataclass import dataclass

MAXIMUM_SOURCES = 64
"""Maximum number of recommended sources that are followed; others are ignored."""

# -- events in -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceAdded:
    """The object is said to be at `source`. A source that was given up is tried again."""

    source: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """All bytes of an ask are there."""

    ask: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection of an ask failed or stalled, or its bytes were wrong, after the first `received` good ones."""

    ask: int
    received: int
    reason: str


@dataclass(frozen=True, slots=True)
class Redirected:
    """The source recommends others."""

    ask: int
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceBusy:
    """The source has not got these bytes yet, or no room to get them; it may have later."""

    ask: int
    reason: str


@dataclass(frozen=True, slots=True)
class SourceRefused:
    """The source has not got the object, or `damaged`: it had, and can't read it."""

    ask: int
    reason: str
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class PullTick:
    """Look at the clock: it should come several times a second."""


PlanEvent = SourceAdded | Arrived | Cut | Redirected | SourceBusy | SourceRefused | PullTick
Answer = Arrived | Cut | Redirected | SourceBusy | SourceRefused

# -- instructions out ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskSource:
    """Ask `source` for `length` bytes from `offset` on."""

    number: int
    source: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class PullDone:
    """All bytes are there."""


@dataclass(frozen=True, slots=True)
class PullFailed:
    """They can't be had: `reason` names the sources and what each said last. Nothing is being asked any more."""

    reason: str


PlanInstruction = AskSource | PullDone | PullFailed
Out = list[PlanInstruction]


class _Source:
    __slots__ = ("asks", "delivers", "denials", "failures", "lost", "recommended", "rests_until", "said")

    def __init__(self, recommended: bool) -> None:
        self.recommended = recommended
        self.asks = 0
        """The number of open asks."""
        self.delivers = False
        """Its last answer were bytes."""
        self.rests_until = 0.0
        self.denials = 0
        """How often it had no bytes since it last had some."""
        self.failures = 0
        self.lost = False
        """It is not asked again."""
        self.said = "was not asked yet"


class PullPlan:
    """Plans the pull of one object of `size` bytes. `own_address` is never asked."""

    def __init__(self, size: int, own_address: str, limits: TransferLimits, now: float) -> None:
        self.size = size
        self.present = Ranges()
        """The ranges that have arrived."""
        self.missing = Ranges()
        """The ranges that have neither arrived nor been asked for."""
        self.missing.add(0, size)
        self.asks: dict[int, AskSource] = {}
        self.sources: dict[str, _Source] = {}
        self.ended = False
        self.damaged = False
        """Whether a source has lost its copy, which may have been the one that counted."""
        self.history: deque[Any] = deque(maxlen=HISTORY_EVENTS)
        self._own_address = own_address
        self._limits = limits
        self._moved_at = now
        self._numbers = 0
        self._handlers: dict[type, Callable[[Any, float], None]] = {
            SourceAdded: self._added,
            Arrived: self._arrived,
            Cut: self._cut,
            Redirected: self._redirected,
            SourceBusy: self._busy,
            SourceRefused: self._refused,
            PullTick: lambda event, now: None,
        }

    def handle(self, event: PlanEvent, now: float) -> Out:
        """Take one event in at `now` (seconds, any origin) and return what to do, in order."""
        if self.ended or (not isinstance(event, SourceAdded | PullTick) and event.ask not in self.asks):
            return []
        if not isinstance(event, PullTick):
            self.history.append((now, event))
        self._handlers[type(event)](event, now)
        return self._advance(now)

    def delivering(self) -> list[str]:
        """Return the sources that count this node among those they send to."""
        return [address for address, source in self.sources.items() if source.delivers]

    def describe(self) -> str:
        """Say how far it is, and what each source said last."""
        said = "; ".join(f"{address} {source.said}" for address, source in self.sources.items())
        return f"{self.present.total} of {self.size} bytes are here; sources: {said or 'none are known'}"

    def validate(self) -> None:
        """Raise AssertionError, with the latest events, when an invariant is broken."""
        try:
            self._check()
        except AssertionError as error:
            events = "\n".join(f"{now:.3f} {event}" for now, event in self.history)
            raise AssertionError(f"{error}; latest events:\n{events}") from error

    # -- events ----------------------------------------------------------------------------------------------------

    def _added(self, event: SourceAdded, now: float) -> None:
        source = self.sources.get(event.source)
        if event.source == self._own_address or (source is not None and not source.lost):
            return
        self.sources[event.source] = _Source(recommended=False)
        if source is not None:
            self.sources[event.source].asks = source.asks
        self._moved_at = now

    def _arrived(self, event: Arrived, now: float) -> None:
        ask, source = self._answered(event.ask)
        self.present.add(ask.offset, ask.offset + ask.length)
        source.delivers, source.said = True, "delivers"
        source.failures = source.denials = 0
        self._moved_at = now

    def _cut(self, event: Cut, now: float) -> None:
        ask, source = self._answered(event.ask)
        self.present.add(ask.offset, ask.offset + event.received)
        self.missing.add(ask.offset + event.received, ask.offset + ask.length)
        if event.received:
            self._moved_at = now
        source.failures += 1
        source.lost = source.lost or source.failures >= self._limits.failures_per_source
        self._rest(source, source.failures, now, event.reason)

    def _redirected(self, event: Redirected, now: float) -> None:
        ask, source = self._answered(event.ask)
        self.missing.add(ask.offset, ask.offset + ask.length)
        for address in event.sources:
            if address not in self.sources and address != self._own_address and len(self.sources) < MAXIMUM_SOURCES:
                self.sources[address] = _Source(recommended=True)
        source.denials += 1
        source.recommended = True  # It is not to be asked while others deliver.
        self._rest(source, source.denials, now, f"recommends {', '.join(event.sources) or 'nobody'}")

    def _busy(self, event: SourceBusy, now: float) -> None:
        ask, source = self._answered(event.ask)
        self.missing.add(ask.offset, ask.offset + ask.length)
        source.denials += 1
        self._rest(source, source.denials, now, event.reason)

    def _refused(self, event: SourceRefused, now: float) -> None:
        ask, source = self._answered(event.ask)
        self.missing.add(ask.offset, ask.offset + ask.length)
        source.lost = True
        source.delivers, source.said = False, event.reason
        self.damaged = self.damaged or event.damaged

    def _answered(self, number: int) -> tuple[AskSource, _Source]:
        ask = self.asks.pop(number)
        source = self.sources[ask.source]
        source.asks -= 1
        return ask, source

    def _rest(self, source: _Source, times: int, now: float, said: str) -> None:
        pause = self._limits.retry_seconds * 2.0 ** min(times - 1, 20)
        source.rests_until = now + min(pause, self._limits.longest_retry_seconds)
        source.delivers, source.said = False, said

    # -- decisions -------------------------------------------------------------------------------------------------

    def _advance(self, now: float) -> Out:
        out: Out = []
        if not self.missing and not self.asks:
            self.ended = True
            return [PullDone()]
        patient = now - self._moved_at < self._limits.patience_seconds
        while patient and self.missing and len(self.asks) < self._limits.asks_per_pull:
            address = self._choose(now)
            if address is None:
                break
            out.append(self._ask(address))
        hopeless = not patient or all(source.lost for source in self.sources.values())
        if hopeless and not self.asks:
            self.ended = True
            out.append(PullFailed(self._why(patient)))
        return out

    def _choose(self, now: float) -> str | None:
        """Return whom to ask next, or None while all that may be asked are at work or at rest."""
        limits = self._limits
        free = [(a, s) for a, s in self.sources.items() if not s.lost and s.rests_until <= now]
        at_work = sum(s.delivers or s.asks > 0 for s in self.sources.values())
        fresh = (a for a, s in free if not s.delivers and not s.recommended and not s.asks)
        if at_work < limits.sources_at_once and (given := next(fresh, None)) is not None:
            return given
        delivering = [(s.asks, a) for a, s in free if s.delivers and s.asks < limits.asks_per_source]
        if delivering:
            return min(delivering)[1]
        if at_work:
            return None
        idle = ((s.denials + s.failures, index, a) for index, (a, s) in enumerate(free))
        return min(idle, default=(0, 0, None))[2]

    def _ask(self, address: str) -> AskSource:
        start, end = self.missing.remove_first(self._limits.chunk_bytes)
        self._numbers += 1
        ask = self.asks[self._numbers] = AskSource(self._numbers, address, start, end - start)
        self.sources[address].asks += 1
        return ask

    def _why(self, patient: bool) -> str:
        nothing_came = f"nothing came for {self._limits.patience_seconds:.0f} s"
        return self.describe() if patient else f"{nothing_came}; {self.describe()}"

    def _check(self) -> None:
        every = Ranges()
        pieces = [*self.present, *self.missing, *((a.offset, a.offset + a.length) for a in self.asks.values())]
        for start, end in pieces:
            every.add(start, end)
        assert list(every) == [(0, self.size)], f"ranges leave gaps: {every}"
        assert sum(end - start for start, end in pieces) == self.size, "ranges overlap"
        self.present.validate()
        self.missing.validate()
        assert len(self.asks) <= self._limits.asks_per_pull, f"{len(self.asks)} asks at once"
        assert all(0 < a.length <= self._limits.chunk_bytes for a in self.asks.values()), "an ask is empty or too long"
        for address, source in self.sources.items():
            asks = sum(ask.source == address for ask in self.asks.values())
            assert source.asks == asks <= self._limits.asks_per_source, f"{address} counts {source.asks} asks of {asks}"
        assert self._own_address not in self.sources, "it would ask itself"
        assert not (self.ended and self.asks), "it ended with asks on their way"
