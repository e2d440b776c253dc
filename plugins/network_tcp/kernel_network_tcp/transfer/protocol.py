"""The protocol of transfer services, on a connection that has proved the session token.

The receiving side sends requests, one at a time; each `WANT` gets one answer, an `END` none. All numbers are
big-endian:

    request   version, kind, flags, address length    4 x 1 byte
              object                                  20 bytes
              size of the object, offset              2 x 8 bytes
              length, milliseconds to wait            2 x 4 bytes
              address of the asker                    up to 255 bytes, UTF-8
    answer    version, kind                           2 x 1 byte
              length, CRC-32 (0: none)                2 x 4 bytes
              the bytes of the object, or a text      `length` bytes

The text of `REDIRECT` is addresses, one a line; that of other answers is for people.
"""

from __future__ import annotations

import struct

from kernel_spec.dataclass import dataclass
from kernel_spec.errors import ProtocolError
from kernel_spec.ids import OBJECT_ID_BYTES, ObjectId

VERSION = 1
WANT, END = 1, 2
BYTES, REDIRECT, BUSY, ABSENT, DAMAGED = 1, 2, 3, 4, 5
CHECKSUM, COMPLETE = 1, 2
"""Flags: of `WANT`, the answer must carry a CRC-32; of `END`, the asker has the whole object now."""
MAXIMUM_CHUNK = 64 << 20
MAXIMUM_TEXT = 4096
MAXIMUM_WAIT = 60.0
_REQUEST = struct.Struct(f"!BBBB{OBJECT_ID_BYTES}sQQII")
_ANSWER = struct.Struct("!BBII")
ANSWER_BYTES = _ANSWER.size
REQUEST_BYTES = _REQUEST.size + 255
"""The longest request."""


@dataclass(frozen=True, slots=True)
class Want:
    """`asker` wants `length` bytes of an object of `size` bytes; the answer may take `wait` seconds."""

    object: ObjectId
    size: int
    offset: int
    length: int
    wait: float
    asker: str
    checksum: bool = False


@dataclass(frozen=True, slots=True)
class WantNoMore:
    """`asker` wants no more of it; `complete`: it has all."""

    object: ObjectId
    asker: str
    complete: bool


@dataclass(frozen=True, slots=True)
class AnswerHeader:
    """The beginning of an answer. `checksum` is 0 if there is no checksum."""

    kind: int
    length: int
    checksum: int


def encode_request(request: Want | WantNoMore) -> bytes:
    """Return the bytes of a request. Raises ProtocolError when the address is too long."""
    address = request.asker.encode()
    if len(address) > 255:
        raise ProtocolError(f"the address {request.asker!r} has more than 255 bytes; this node needs a shorter one")
    if isinstance(request, WantNoMore):
        flags = COMPLETE if request.complete else 0
        return _REQUEST.pack(VERSION, END, flags, len(address), request.object, 0, 0, 0, 0) + address
    flags = CHECKSUM if request.checksum else 0
    numbers = (request.size, request.offset, request.length, int(request.wait * 1000))
    return _REQUEST.pack(VERSION, WANT, flags, len(address), request.object, *numbers) + address


def decode_request(data: bytes | bytearray) -> tuple[Want | WantNoMore, int] | None:
    """Return the first request in `data` and how many bytes it has; None when it is not complete.

    Raises ProtocolError as soon as the bytes can't be a request: nothing was made of them by then.
    """
    if data and data[0] != VERSION:
        raise ProtocolError(f"a peer speaks version {data[0]} of object transfer, this node {VERSION}; update one")
    if len(data) < _REQUEST.size:
        return None
    _, kind, flags, more, object, size, offset, length, wait = _REQUEST.unpack_from(data)
    if kind not in (WANT, END):
        raise ProtocolError(f"a peer sent a request of kind {kind} for an object; there are {WANT} and {END}")
    if kind == WANT and not (0 < length <= MAXIMUM_CHUNK and offset + length <= size and wait <= MAXIMUM_WAIT * 1000):
        raise ProtocolError(
            f"a peer asked for {length} bytes from {offset} on, of an object of {size} bytes, with {wait} ms to wait; "
            f"a request is for 1 to {MAXIMUM_CHUNK} bytes inside the object, and waits {MAXIMUM_WAIT:.0f} s at most"
        )
    end = _REQUEST.size + more
    if len(data) < end:
        return None
    try:
        asker = bytes(data[_REQUEST.size : end]).decode()
    except UnicodeDecodeError:
        raise ProtocolError("a peer gave an address that is not UTF-8") from None
    if kind == END:
        return WantNoMore(ObjectId(object), asker, bool(flags & COMPLETE)), end
    return Want(ObjectId(object), size, offset, length, wait / 1000, asker, bool(flags & CHECKSUM)), end


def encode_bytes_head(length: int, checksum: int = 0) -> bytes:
    """Return what goes before `length` bytes of an object."""
    return _ANSWER.pack(VERSION, BYTES, length, checksum)


def encode_text(kind: int, text: str) -> bytes:
    """Return an answer without bytes of the object; what is too long is cut, a redirection after a whole line."""
    data = text.encode()
    if len(data) > MAXIMUM_TEXT:
        data = data[:MAXIMUM_TEXT]
        data = data.rpartition(b"\n")[0] if kind == REDIRECT else data.decode(errors="ignore").encode()
    return _ANSWER.pack(VERSION, kind, len(data), 0) + data


def decode_head(data: bytes | bytearray | memoryview, wanted: int) -> AnswerHeader:
    """Return how an answer of `ANSWER_BYTES` begins. Raises ProtocolError unless it fits a want of `wanted` bytes."""
    version, kind, length, checksum = _ANSWER.unpack(data)
    if version != VERSION:
        raise ProtocolError(f"it answered in version {version} of object transfer, this node speaks {VERSION}")
    if not BYTES <= kind <= DAMAGED:
        raise ProtocolError(f"it gave an answer of kind {kind}; there are {BYTES} to {DAMAGED}")
    if kind == BYTES and length != wanted:
        raise ProtocolError(f"it answered with {length} bytes where {wanted} were asked for")
    if kind != BYTES and length > MAXIMUM_TEXT:
        raise ProtocolError(f"it answered with a text of {length} bytes; {MAXIMUM_TEXT} are the most")
    return AnswerHeader(kind, length, checksum)
