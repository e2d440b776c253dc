"""The part of the protocol buffers wire format that event files need."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    """Return an integer in groups of seven bits. A negative one takes ten bytes, as an int64."""
    value &= 0xFFFFFFFFFFFFFFFF
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def field(number: int, data: bytes | str) -> bytes:
    """Return a field that holds a string, bytes or a message."""
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def whole(number: int, value: int) -> bytes:
    """Return a field that holds an integer, a value of an enumeration or a bool."""
    return varint(number << 3) + varint(value)


def double(number: int, value: float) -> bytes:
    """Return a field that holds a double."""
    return varint(number << 3 | 1) + struct.pack("<d", value)


def doubles(number: int, values: list[float]) -> bytes:
    """Return a repeated field of doubles, packed."""
    return field(number, struct.pack(f"<{len(values)}d", *values))
