"""Decide which bytes this node sends to which other nodes. Without sockets, clocks or threads.

A node that asks for a chunk takes one of a few slots of the object. While all are taken, others are *redirected* to
the nodes that have one or had one: those send on what they have, also while they are still receiving it.

Every `BytesWanted` is answered by exactly one `Send`, `Redirect` or `Deny`, unless its connection is lost first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kernel_network_tcp.transfer.limits import HISTORY_EVENTS, TransferLimits
from kernel_network_tcp.transfer.protocol import ABSENT, BUSY, DAMAGED, Want, WantNoMore
from kernel_network_tcp.transfer.ranges import Ranges
from kernel_network_tcp.transfer.upload_slots import UploadSlots
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import ObjectId

# -- events in -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BytesWanted:
    """A request arrived over `connection`; `number` identifies it from now on."""

    number: int
    connection: int
    want: Want


@dataclass(frozen=True, slots=True)
class Sent:
    """A `Send` of the object is over; without `complete` the connection broke."""

    object: ObjectId
    number: int
    complete: bool


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
    """A `Hold` failed; `kind` is the kind of answer to give."""

    object: ObjectId
    kind: int
    reason: str


@dataclass(frozen=True, slots=True)
class Receiving:
    """The object is arriving at this node: `present` has the ranges that are there at any time."""

    object: ObjectId
    size: int
    present: Ranges


@dataclass(frozen=True, slots=True)
class MoreReceived:
    """More of the object has arrived."""

    object: ObjectId


@dataclass(frozen=True, slots=True)
class Received:
    """The object is complete. `held`: it stays in memory until `Release`, as it must where `is_wanted` returns true."""

    object: ObjectId
    held: bool


@dataclass(frozen=True, slots=True)
class NotReceived:
    """The object will not be complete. Sends of it that began go on."""

    object: ObjectId
    reason: str


@dataclass(frozen=True, slots=True)
class UploadTick:
    """Look at the clock: it should come several times a second while `busy`."""


UploadEvent = (
    BytesWanted
    | Sent
    | WantNoMore
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
    """Get the object into memory and keep it there.

    Answered by `ObjectHeld`, by `ObjectNotHeld` or, if the object is arriving, by `Receiving`.
    """

    object: ObjectId


@dataclass(frozen=True, slots=True)
class Release:
    """Let the object leave memory."""

    object: ObjectId


@dataclass(frozen=True, slots=True)
class Send:
    """Send the bytes. Answered by `Sent`."""

    number: int
    connection: int
    want: Want


@dataclass(frozen=True, slots=True)
class Redirect:
    """Answer with `addresses` of other nodes."""

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


class _Share:
    """Holds one object and its askers. `waiting` asks have a deadline."""

    __slots__ = ("sending", "size", "slots", "state", "waiting")

    def __init__(self, slots: UploadSlots) -> None:
        self.state = _UNKNOWN
        self.size = 0
        self.slots = slots
        self.waiting: dict[int, tuple[BytesWanted, float]] = {}
        self.sending: dict[int, BytesWanted] = {}

    def askers(self) -> set[str]:
        """Return the nodes whose asks wait, or are being answered."""
        asks = [*(asked for asked, _ in self.waiting.values()), *self.sending.values()]
        return {asked.want.asker for asked in asks}

    def free_slot(self, asker: str) -> None:
        """Take the slot of a node back, unless it asks for more."""
        if asker not in self.askers():
            self.slots.free(asker)


class UploadTable:
    """Holds the objects that one node sends, and decides which bytes go to which node."""

    def __init__(self, limits: TransferLimits) -> None:
        self.shares: dict[ObjectId, _Share] = {}
        self.receiving: dict[ObjectId, tuple[int, Ranges]] = {}
        self.history: deque[Any] = deque(maxlen=HISTORY_EVENTS)
        self._limits = limits
        self._handlers: dict[type, Callable[[Any, float, Out], None]] = {
            BytesWanted: self._asked,
            Sent: self._sent,
            WantNoMore: self._ended,
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
        """Whether the table needs ticks."""
        return bool(self.shares)

    def is_wanted(self, object: ObjectId) -> bool:
        """Return whether the object is being sent to a node, or will be."""
        share = self.shares.get(object)
        return share is not None and bool(share.slots or share.waiting or share.sending)

    def is_asked_for(self, object: ObjectId) -> bool:
        """Return whether a `Hold` of the object is not answered yet."""
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
        except AssertionError as error:
            events = "\n".join(f"{now:.3f} {event}" for now, event in self.history)
            raise AssertionError(f"{error}; latest events:\n{events}") from error

    # -- askers ---------------------------------------------------------------------------------------------------

    def _asked(self, event: BytesWanted, now: float, out: Out) -> None:
        want = event.want
        share = self.shares.get(want.object)
        if share is None:
            share = self.shares[want.object] = _Share(UploadSlots(self._limits))
            if want.object in self.receiving:
                share.size, share.state = self.receiving[want.object][0], _RECEIVING
        if share.size and share.size != want.size:
            out.append(Deny(event.connection, DAMAGED, _other_size(share.size, want.size)))
        elif not share.slots.has_room(want.asker):
            out.append(Redirect(event.connection, share.slots.recommend(want.asker)))
        else:
            share.slots.take(want.asker, event.connection, now)
            share.waiting[event.number] = (event, now + want.wait)
            self._serve(want.object, share, now, out)
            if share.state == _UNKNOWN:
                share.state = _ASKED_FOR
                out.append(Hold(want.object))
        self._tidy(want.object, share, out)

    def _serve(self, object: ObjectId, share: _Share, now: float, out: Out) -> None:
        """Send to those whose bytes are there."""
        for number, (asked, _) in list(share.waiting.items()):
            want = asked.want
            if share.state == _HELD or (
                share.state == _RECEIVING and self.receiving[object][1].cover(want.offset, want.offset + want.length)
            ):
                del share.waiting[number]
                share.sending[number] = asked
                share.slots.use(want.asker, now)
                out.append(Send(number, asked.connection, want))

    def _sent(self, event: Sent, now: float, out: Out) -> None:
        share = self.shares[event.object]
        asked = share.sending.pop(event.number)
        got_all = event.complete and asked.want.length == asked.want.size
        if share.slots.use(asked.want.asker, now) or got_all:  # An asker that got all at once need not report the end.
            share.free_slot(asked.want.asker)
        self._tidy(event.object, share, out)

    def _ended(self, event: WantNoMore, now: float, out: Out) -> None:
        share = self.shares.get(event.object)
        if share is not None:
            share.slots.end(event.asker)
            share.free_slot(event.asker)
            if not event.complete:
                share.slots.distrust(event.asker)
            self._tidy(event.object, share, out)

    def _connection_lost(self, event: ConnectionLost, now: float, out: Out) -> None:
        for object, share in list(self.shares.items()):
            share.waiting = {n: ask for n, ask in share.waiting.items() if ask[0].connection != event.connection}
            share.slots.connection_lost(event.connection)
            self._tidy(object, share, out)

    # -- what is there ---------------------------------------------------------------------------------------------

    def _held(self, event: ObjectHeld, now: float, out: Out) -> None:
        share = self.shares.get(event.object)
        if share is not None and share.state == _ASKED_FOR:
            self._is_here(event.object, share, _HELD, event.size, now, out)
            self._tidy(event.object, share, out)
        else:
            out.append(Release(event.object))

    def _not_held(self, event: ObjectNotHeld, now: float, out: Out) -> None:
        share = self.shares.get(event.object)
        if share is not None and share.state == _ASKED_FOR:
            self._deny_all(event.object, share, event.kind, event.reason, out)

    def _receiving(self, event: Receiving, now: float, out: Out) -> None:
        self.receiving[event.object] = (event.size, event.present)
        share = self.shares.get(event.object)
        if share is not None:
            self._is_here(event.object, share, _RECEIVING, event.size, now, out)

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
            self._tidy(event.object, share, out)

    def _not_received(self, event: NotReceived, now: float, out: Out) -> None:
        self.receiving.pop(event.object, None)
        share = self.shares.get(event.object)
        if share is not None and share.state in (_RECEIVING, _ASKED_FOR):
            share.size = 0
            self._deny_all(event.object, share, ABSENT, event.reason, out)

    def _deny_all(self, object: ObjectId, share: _Share, kind: int, reason: str, out: Out) -> None:
        out += [Deny(asked.connection, kind, reason) for asked, _ in share.waiting.values()]
        share.waiting.clear()
        share.slots.clear()
        share.state = _UNKNOWN
        self._tidy(object, share, out)

    def _is_here(self, object: ObjectId, share: _Share, state: str, size: int, now: float, out: Out) -> None:
        """Send the object to nodes that ask for it with this size in bytes, and deny it to all others."""
        share.state, share.size = state, size
        for number, (asked, _) in list(share.waiting.items()):
            if asked.want.size != size:
                del share.waiting[number]
                share.slots.distrust(asked.want.asker)
                share.free_slot(asked.want.asker)
                out.append(Deny(asked.connection, DAMAGED, _other_size(size, asked.want.size)))
        self._serve(object, share, now, out)

    def _time_passed(self, event: UploadTick, now: float, out: Out) -> None:
        for object, share in list(self.shares.items()):
            for number, (asked, deadline) in list(share.waiting.items()):
                if deadline <= now:
                    del share.waiting[number]
                    out.append(Deny(asked.connection, BUSY, "is itself still waiting for these bytes"))
            share.slots.expire(share.askers(), now)
            self._tidy(object, share, out)

    def _tidy(self, object: ObjectId, share: _Share, out: Out) -> None:
        """Release objects that are not being sent, and forget those that are not asked for any more."""
        if share.slots or share.waiting or share.sending:
            return
        if share.state == _HELD:
            share.state, share.size = _UNKNOWN, 0
            out.append(Release(object))
        if share.state != _ASKED_FOR and not share.slots.has_helpers:
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
