"""TensorBoard's event files: records with checksums, and the events that they hold.

The record format is that of TFRecord files (tensorflow/core/lib/io/record_writer.h): length, masked CRC-32C of the
length, data, masked CRC-32C of the data. Field numbers are those of tensorboard/compat/proto/event.proto and
summary.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from kernel_runs.loggers.crc32c import checksum, masked
from kernel_runs.loggers.protobuf import double, doubles, field, varint

_HEADER = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CHECK = struct.Struct("<I")
_WALL_TIME = struct.Struct("<Bd")
_LARGEST = 3.4028234663852886e38
"""The largest number that a float of four bytes can hold."""


@lru_cache(maxsize=4096)
def _head(size: int) -> bytes:
    """Return the length of a record with its checksum. Cached, as most records have one of a few lengths."""
    length = _LENGTH.pack(size)
    return length + _CHECK.pack(masked(checksum()(length)))


def record(data: bytes) -> bytes:
    """Return data as a record."""
    return b"".join((_head(len(data)), data, _CHECK.pack(masked(checksum()(data)))))


def records(text: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the data of each record, and the position where it ends. Stops at a damaged or incomplete record."""
    crc, position = checksum(), 0
    while position + _HEADER.size <= len(text):
        length, check = _HEADER.unpack_from(text, position)
        end = position + _HEADER.size + length
        if masked(crc(text[position : position + _LENGTH.size])) != check or end + _CHECK.size > len(text):
            return
        data = text[position + _HEADER.size : end]
        if masked(crc(data)) != _CHECK.unpack_from(text, end)[0]:
            return
        position = end + _CHECK.size
        yield data, position


def version_event(wall_time: float) -> bytes:
    """Return the event with which a file begins."""
    return double(1, wall_time) + field(3, "brain.Event:2")


def summary_event(wall_time: float, step: int, summary: bytes) -> bytes:
    """Return an event with a summary, the values of one step. `wall_time` is in seconds since 1970."""
    return b"".join((_WALL_TIME.pack(0x09, wall_time), b"\x10", varint(step), b"\x2a", varint(len(summary)), summary))


def plugin_value(tag: str, plugin: str, content: bytes) -> bytes:
    """Return a value of a summary that carries the data of a TensorBoard plugin."""
    return field(1, field(1, tag) + field(9, field(1, field(1, plugin) + field(2, content))))


class ScalarsTemplate:
    """Makes summaries of numbers that always have the same tags. All but the numbers is encoded once."""

    def __init__(self, tags: Sequence[str]) -> None:
        parts = [field(1, tag) + b"\x15" for tag in tags]
        heads = [b"\x0a" + varint(len(part) + 4) + part for part in parts]
        self._struct = struct.Struct("<" + "".join(f"{len(head)}sf" for head in heads))
        self._arguments: list[Any] = [item for head in heads for item in (head, 0.0)]

    def pack(self, values: Sequence[Any]) -> bytes:
        """Return the summary of these values, one for each tag. Values too large for four bytes become infinity."""
        arguments = self._arguments
        arguments[1::2] = values
        try:
            return self._struct.pack(*arguments)
        except (OverflowError, struct.error):
            arguments[1::2] = [_as_float(value) for value in values]
            return self._struct.pack(*arguments)


def _as_float(value: Any) -> float:
    try:
        number = float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    if abs(number) <= _LARGEST or number != number:
        return number
    return float("inf") if number > 0 else float("-inf")


def histogram_value(tag: str, values: Any, bins: int = 30) -> bytes | None:
    """Return a summary's value with the distribution of the numbers in an array or list, or None without numbers."""
    try:
        numbers = np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        return None
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return None
    counts, edges = np.histogram(numbers, bins=bins)
    content = b"".join(
        (
            double(1, float(numbers.min())),
            double(2, float(numbers.max())),
            double(3, float(numbers.size)),
            double(4, float(numbers.sum())),
            double(5, float(np.square(numbers).sum())),
            doubles(6, edges[1:].tolist()),
            doubles(7, counts.astype(np.float64).tolist()),
        )
    )
    return field(1, field(1, tag) + field(5, content))
