"""The events that the table of uploads is fed, and its instructions."""

from __future__ import annotations

from kernel.node.transfer.protocol import Want, WantNoMore
from kernel.node.transfer.ranges import Ranges
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import ObjectId

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
