"""Decide which bytes this node sends to which other nodes. Without sockets, clocks or threads.

A node that asks for a chunk takes one of a few *slots* of the object, and keeps it until it says that it wants no
more, is silent, or leaves. While all are taken, others are *redirected* to the nodes that have one or had one: those
send on what they have, also while they are still receiving it.

Every `BytesWanted` is answered by exactly one `Send`, `Redirect` or `Deny`, unless its connection is lost first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_network_tcp.transfer.protocol import ABSENT, BUSY, DAMAGED, Want, WantNoMore
from kernel_network_tcp.transfer.ranges import Ranges
from kernel_processes.transport.addresses import is_relayed
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import ObjectId

HISTORY_EVENTS = 100
RECOMMENDED = 4
"""The number of nodes that a redirection names."""
MAXIMUM_HELPERS = 64
"""The number of nodes that are remembered for one object."""

# -- events in -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BytesWanted:
    """A request came over `connection`; `number` names it from now on."""

    number: int
    connection: int
    want: Want


@dataclass(frozen=True, slots=True)
class Sent:
    """A `Send` is over; without `complete` the connection broke."""

    number: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """A node wants no more bytes of an object."""

    end: WantNoMore


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """A connection is lost: requests that came over it need no answer."""

    connection: int


@dataclass(frozen=True, slots=True)
class ObjectHeld:
    """A `Hold` succeeded: the object of `size` bytes stays in memory until `Release`."""

    object: ObjectId
    size: int


@dataclass(frozen=True, slots=True)
class ObjectNotHeld:
    """A `Hold` failed; `kind` is what to answer."""

    object: ObjectId
    kind: int
    reason: str


@dataclass(frozen=True, slots=True)
class Receiving:
    """The object arrives at this node: `present` says at any time what is there."""

    object: ObjectId
    size: int
    present: Ranges


@dataclass(frozen=True, slots=True)
class MoreReceived:
    """More of it is there."""

    object: ObjectId


@dataclass(frozen=True, slots=True)
class Received:
    """It is complete; `held`: and stays in memory until `Release`, which must be so where `is_wanted` says it."""

    object: ObjectId
    held: bool


@dataclass(frozen=True, slots=True)
class NotReceived:
    """It will not be complete. Sends of it that began go on."""

    object: ObjectId
    reason: str


@dataclass(frozen=True, slots=True)
class UploadTick:
    """Look at the clock: it should come several times a second while `busy`."""


UploadEvent = (
    BytesWanted
    | Sent
    | Ended
    | ConnectionLost
    | ObjectHeld
    | ObjectNotHeld
    | Receiving
    | MoreReceived
    | Received
    | NotReceived
    | UploadTick
)

# -- instructions out ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hold:
    """Have the object in memory and keep it there.

    Answered by `ObjectHeld`, by `ObjectNotHeld` or, if the object is arriving, by `Receiving`.
    """

    object: ObjectId


@dataclass(frozen=True, slots=True)
class Release:
    """It need not stay in memory."""

    object: ObjectId


@dataclass(frozen=True, slots=True)
class Send:
    """Send the bytes; answered by `Sent`."""

    number: int
    connection: int
    want: Want


@dataclass(frozen=True, slots=True)
class Redirect:
    """Name `addresses`."""

    connection: int
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deny:
    """Answer with `kind` (BUSY, ABSENT or DAMAGED) and the reason."""

    connection: int
    kind: int
    reason: str


UploadInstruction = Hold | Release | Send | Redirect | Deny

# -- the table ---------------------------------------------------------------------------------------------------------

Out = list[UploadInstruction]
_UNKNOWN, _ASKED_FOR, _HELD, _RECEIVING = "unknown", "asked for", "held", "receiving"


class _Slot:
    __slots__ = ("connections", "has_ended", "used_at")

    def __init__(self) -> None:
        self.connections: set[int] = set()
        self.used_at = 0.0
        self.has_ended = False
        """Whether its node wants no more; that news may arrive before the last send is known to have ended."""


class _Helper:
    __slots__ = ("recommended", "until")

    def __init__(self, until: float) -> None:
        self.recommended = 0
        self.until = until


class _Share:
    """One object and its askers. `waiting` asks have a deadline."""

    __slots__ = ("helpers", "sending", "size", "slots", "state", "waiting")

    def __init__(self) -> None:
        self.state = _UNKNOWN
        self.size = 0
        self.slots: dict[str, _Slot] = {}
        self.helpers: dict[str, _Helper] = {}
        self.waiting: dict[int, tuple[BytesWanted, float]] = {}
        self.sending: dict[int, BytesWanted] = {}

    @property
    def asks(self) -> list[BytesWanted]:
        return [*(asked for asked, _ in self.waiting.values()), *self.sending.values()]


class UploadTable:
    """The machine of one node."""

    def __init__(self, limits: TransferLimits) -> None:
        self.shares: dict[ObjectId, _Share] = {}
        self.receiving: dict[ObjectId, tuple[int, Ranges]] = {}
        self.history: deque[Any] = deque(maxlen=HISTORY_EVENTS)
        self._limits = limits
        self._sends: dict[int, ObjectId] = {}
        self._handlers: dict[type, Callable[[Any, float, Out], None]] = {
            BytesWanted: self._asked,
            Sent: self._sent,
            Ended: self._ended,
            ConnectionLost: self._connection_lost,
            ObjectHeld: self._held,
            ObjectNotHeld: self._not_held,
            Receiving: self._receiving,
            MoreReceived: self._progress,
            Received: self._received,
            NotReceived: self._not_received,
            UploadTick: self._time_passed,
        }

    def handle(self, event: UploadEvent, now: float) -> Out:
        """Take one event in at `now` (seconds, any origin) and return what to do, in order."""
        if not isinstance(event, UploadTick | MoreReceived):
            self.history.append((now, event))
        out: Out = []
        self._handlers[type(event)](event, now, out)
        return out

    @property
    def busy(self) -> bool:
        """Whether it needs ticks."""
        return bool(self.shares)

    def is_wanted(self, object: ObjectId) -> bool:
        """Whether the object is being sent to a node, or will be."""
        share = self.shares.get(object)
        return share is not None and bool(share.slots or share.waiting or share.sending)

    def is_asked_for(self, object: ObjectId) -> bool:
        """Whether a `Hold` of it is not answered yet."""
        share = self.shares.get(object)
        return share is not None and share.state == _ASKED_FOR

    def sends(self, object: ObjectId) -> list[int]:
        """Return the connections over which it is being sent this moment."""
        share = self.shares.get(object)
        return [] if share is None else [asked.connection for asked in share.sending.values()]

    def validate(self) -> None:
        """Raise AssertionError, with the latest events, when an invariant is broken."""
        try:
            for object, share in self.shares.items():
                self._check(object, share)
            sends = {number: object for object, share in self.shares.items() for number in share.sending}
            assert sends == self._sends, "sends are counted wrong"
        except AssertionError as error:
            events = "\n".join(f"{now:.3f} {event}" for now, event in self.history)
            raise AssertionError(f"{error}; latest events:\n{events}") from error

    # -- who asks --------------------------------------------------------------------------------------------------

    def _asked(self, event: BytesWanted, now: float, out: Out) -> None:
        want = event.want
        share = self.shares.get(want.object)
        if share is None:
            share = self.shares[want.object] = _Share()
            if want.object in self.receiving:
                share.size, share.state = self.receiving[want.object][0], _RECEIVING
        if share.size and share.size != want.size:
            out.append(Deny(event.connection, DAMAGED, _other_size(share.size, want.size)))
        elif want.asker not in share.slots and len(share.slots) >= self._limits.uploads_per_object:
            out.append(Redirect(event.connection, self._recommend(share, want.asker)))
        else:
            self._admit(share, event, now)
            share.waiting[event.number] = (event, now + want.wait)
            self._serve(want.object, share, now, out)
            if share.state == _UNKNOWN:
                share.state = _ASKED_FOR
                out.append(Hold(want.object))
        self._tidy(want.object, share, now, out)

    def _admit(self, share: _Share, event: BytesWanted, now: float) -> None:
        asker = event.want.asker
        slot = share.slots.setdefault(asker, _Slot())
        slot.connections.add(event.connection)
        slot.used_at = now
        slot.has_ended = False
        if is_relayed(asker):
            return  # nobody is sent there who need not go there
        if asker in share.helpers or len(share.helpers) < MAXIMUM_HELPERS:
            helper = share.helpers.setdefault(asker, _Helper(now))
            helper.until = now + self._limits.idle_seconds

    def _recommend(self, share: _Share, asker: str) -> tuple[str, ...]:
        """Return nodes that may have the object for `asker`, those that were recommended least first."""
        others = [(helper.recommended, address) for address, helper in share.helpers.items() if address != asker]
        named = tuple(address for _, address in sorted(others)[:RECOMMENDED])
        for address in named[:1]:
            share.helpers[address].recommended += 1
        return named

    def _serve(self, object: ObjectId, share: _Share, now: float, out: Out) -> None:
        """Send to those whose bytes are there."""
        for number, (asked, _) in list(share.waiting.items()):
            want = asked.want
            if share.state == _HELD or (
                share.state == _RECEIVING and self.receiving[object][1].cover(want.offset, want.offset + want.length)
            ):
                del share.waiting[number]
                share.sending[number] = asked
                self._sends[number] = object
                share.slots[want.asker].used_at = now
                out.append(Send(number, asked.connection, want))

    def _sent(self, event: Sent, now: float, out: Out) -> None:
        object = self._sends.pop(event.number)
        share = self.shares[object]
        asked = share.sending.pop(event.number)
        slot = share.slots.get(asked.want.asker)
        if slot is not None:
            slot.used_at = now
            got_all = event.complete and asked.want.length == asked.want.size
            if got_all or slot.has_ended:  # who got all at once need not say that it wants no more
                self._free_slot(share, asked.want.asker)
        self._tidy(object, share, now, out)

    def _ended(self, event: Ended, now: float, out: Out) -> None:
        share = self.shares.get(event.end.object)
        if share is None:
            return
        if event.end.asker in share.slots:
            share.slots[event.end.asker].has_ended = True
        self._free_slot(share, event.end.asker)
        if not event.end.complete:
            share.helpers.pop(event.end.asker, None)
        self._tidy(event.end.object, share, now, out)

    def _free_slot(self, share: _Share, asker: str) -> None:
        if not any(asked.want.asker == asker for asked in share.asks):
            share.slots.pop(asker, None)

    def _connection_lost(self, event: ConnectionLost, now: float, out: Out) -> None:
        for object, share in list(self.shares.items()):
            for number in [n for n, (asked, _) in share.waiting.items() if asked.connection == event.connection]:
                del share.waiting[number]
            for asker, slot in list(share.slots.items()):
                if event.connection in slot.connections:
                    slot.connections.discard(event.connection)
                    if not slot.connections:  # it died, as far as anybody knows
                        del share.slots[asker]
                        share.helpers.pop(asker, None)
            self._tidy(object, share, now, out)

    # -- what is there ---------------------------------------------------------------------------------------------

    def _held(self, event: ObjectHeld, now: float, out: Out) -> None:
        share = self.shares.get(event.object)
        if share is None or share.state != _ASKED_FOR:
            out.append(Release(event.object))
            return
        share.state, share.size = _HELD, event.size
        self._deny_other_sizes(share, out)
        self._serve(event.object, share, now, out)
        self._tidy(event.object, share, now, out)

    def _not_held(self, event: ObjectNotHeld, now: float, out: Out) -> None:
        share = self.shares.get(event.object)
        if share is not None and share.state == _ASKED_FOR:
            self._deny_all(event.object, share, event.kind, event.reason, now, out)

    def _receiving(self, event: Receiving, now: float, out: Out) -> None:
        self.receiving[event.object] = (event.size, event.present)
        share = self.shares.get(event.object)
        if share is not None:
            share.state, share.size = _RECEIVING, event.size
            self._deny_other_sizes(share, out)
            self._serve(event.object, share, now, out)

    def _progress(self, event: MoreReceived, now: float, out: Out) -> None:
        share = self.shares.get(event.object)
        if share is not None and share.waiting:
            self._serve(event.object, share, now, out)

    def _received(self, event: Received, now: float, out: Out) -> None:
        del self.receiving[event.object]
        share = self.shares.get(event.object)
        if share is not None:
            share.state = _HELD if event.held else _UNKNOWN
            self._serve(event.object, share, now, out)
            self._tidy(event.object, share, now, out)

    def _not_received(self, event: NotReceived, now: float, out: Out) -> None:
        self.receiving.pop(event.object, None)
        share = self.shares.get(event.object)
        if share is not None and share.state in (_RECEIVING, _ASKED_FOR):
            share.size = 0
            self._deny_all(event.object, share, ABSENT, event.reason, now, out)

    def _deny_all(self, object: ObjectId, share: _Share, kind: int, reason: str, now: float, out: Out) -> None:
        out += [Deny(asked.connection, kind, reason) for asked, _ in share.waiting.values()]
        share.waiting.clear()
        share.slots.clear()
        share.helpers.clear()
        share.state = _UNKNOWN
        self._tidy(object, share, now, out)

    def _deny_other_sizes(self, share: _Share, out: Out) -> None:
        for number, (asked, _) in list(share.waiting.items()):
            if asked.want.size != share.size:
                del share.waiting[number]
                self._free_slot(share, asked.want.asker)
                share.helpers.pop(asked.want.asker, None)
                out.append(Deny(asked.connection, DAMAGED, _other_size(share.size, asked.want.size)))

    # -- time ------------------------------------------------------------------------------------------------------

    def _time_passed(self, event: UploadTick, now: float, out: Out) -> None:
        for object, share in list(self.shares.items()):
            for number, (asked, deadline) in list(share.waiting.items()):
                if deadline <= now:
                    del share.waiting[number]
                    out.append(Deny(asked.connection, BUSY, "is itself still waiting for these bytes"))
            at_work = {asked.want.asker for asked in share.asks}
            for asker, slot in list(share.slots.items()):
                if asker not in at_work and slot.used_at + self._limits.stall_seconds <= now:
                    del share.slots[asker]
            for address, helper in list(share.helpers.items()):
                if address not in share.slots and helper.until <= now:
                    del share.helpers[address]
            self._tidy(object, share, now, out)

    def _tidy(self, object: ObjectId, share: _Share, now: float, out: Out) -> None:
        """Release objects that are not being sent, and forget those that are not asked for any more."""
        if share.slots or share.waiting or share.sending:
            return
        if share.state == _HELD:
            share.state, share.size = _UNKNOWN, 0
            out.append(Release(object))
        if share.state != _ASKED_FOR and not share.helpers:
            self.shares.pop(object, None)

    def _check(self, object: ObjectId, share: _Share) -> None:
        assert len(share.slots) <= self._limits.uploads_per_object, f"{len(share.slots)} slots of {object.hex()}"
        assert (share.state == _RECEIVING) == (object in self.receiving), f"{object.hex()} is {share.state}"
        assert not (share.waiting and share.state in (_HELD, _UNKNOWN)), f"asks wait though it is {share.state}"
        assert all(a.want.asker in share.slots for a, _ in share.waiting.values()), "somebody waits without a slot"
        assert share.state != _HELD or share.slots or share.sending, f"{object.hex()} is held for nobody"
        assert share.size or share.state not in (_HELD, _RECEIVING), "its size is not known"


def _other_size(own: int, wanted: int) -> str:
    return f"has {own} bytes under that name, where {wanted} were asked for"
