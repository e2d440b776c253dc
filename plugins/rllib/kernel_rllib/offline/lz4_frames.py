"""Frames of LZ4, as packed columns have them. They are read and written without the library lz4, quicker with it.

The format is that of https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md. Without the library a written frame
has its blocks stored as they are, which each reader of the format takes.
"""

from __future__ import annotations

import importlib
import struct
from typing import Any

from kernel_rllib.errors import DataError

MAGIC = 0x184D2204
MOST_BYTES = 2**31
"""A frame that holds more than this is refused: a few bytes can say that they stand for many."""
_STORED = 0x80000000
_BLOCK = 4 * 1024 * 1024
_DESCRIPTOR = b"\x60\x70"
"""Version 1, blocks that are independent, no checksums; blocks of 4 MB at most."""


def lz4_library() -> Any:
    """Return the module `lz4.frame`, or None where it is not installed."""
    try:
        return importlib.import_module("lz4.frame")
    except ImportError:
        return None


def to_frame(data: bytes, library: Any = None) -> bytes:
    """Return a frame of these bytes: compressed by the library, or stored where there is none."""
    if library is not None:
        compressed: bytes = library.compress(data)
        return compressed
    check = (_xxh32_of_few(_DESCRIPTOR) >> 8) & 0xFF
    parts = [struct.pack("<I", MAGIC), _DESCRIPTOR, bytes([check])]
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK]
        parts += [struct.pack("<I", len(block) | _STORED), block]
    return b"".join([*parts, struct.pack("<I", 0)])


def of_frame(frame: bytes, library: Any = None, most: int = MOST_BYTES) -> bytes:
    """Return what a frame holds.

    Args:
        frame: The frame.
        library: The module `lz4.frame`, which is quicker; None to do without.
        most: How many bytes it may hold.

    Raises:
        DataError: If it is no frame, ends too soon, or holds more.
    """
    try:
        found = _by_library(frame, library, most) if library is not None else _Frame(frame, most).read()
    except (IndexError, struct.error, RuntimeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"a packed column is no whole frame of LZ4 ({error}): the file is damaged there") from None
    return found


def _by_library(frame: bytes, library: Any, most: int) -> bytes:
    reader = library.LZ4FrameDecompressor()
    found: bytes = reader.decompress(frame, max_length=most)
    if not reader.eof:
        raise _too_large(most) if len(found) >= most else ValueError("it ends too soon")
    return found


def _too_large(most: int) -> DataError:
    return DataError(f"a packed column stands for more than {most:,} bytes: write batches with fewer steps")


class _Frame:
    """Reads one frame, byte by byte."""

    def __init__(self, frame: bytes, most: int) -> None:
        self._frame, self._most, self._at = frame, most, 0
        self._made = bytearray()

    def read(self) -> bytes:
        if self._number() != MAGIC:
            raise ValueError("it does not begin as one")
        flags = self._frame[self._at]
        if flags >> 6 != 1:
            raise ValueError("its version is not 1")
        self._at += 2 + 8 * bool(flags & 8) + 4 * bool(flags & 1) + 1  # flags, block size, sizes, check
        while size := self._number():
            end = self._at + (size & ~_STORED)
            if end > len(self._frame):
                raise ValueError("it ends too soon")
            if size & _STORED:
                self._take(self._frame[self._at : end])
            else:
                self._block(end)
            self._at = end + 4 * bool(flags & 16)
        return bytes(self._made)

    def _number(self) -> int:
        (found,) = struct.unpack_from("<I", self._frame, self._at)
        self._at += 4
        return int(found)

    def _take(self, piece: bytes | bytearray) -> None:
        if len(self._made) + len(piece) > self._most:
            raise _too_large(self._most)
        self._made += piece

    def _length(self, short: int) -> int:
        """Return a length that begins with four bits, and goes on in bytes while these are full."""
        if short < 15:
            return short
        while (more := self._frame[self._at]) == 255:
            short, self._at = short + 255, self._at + 1
        self._at += 1
        return short + more

    def _block(self, end: int) -> None:
        """Read sequences of literals and repetitions up to the end of a block."""
        while self._at < end:
            token = self._frame[self._at]
            self._at += 1
            literals = self._length(token >> 4)
            self._take(self._frame[self._at : self._at + literals])
            self._at += literals
            if self._at >= end:
                return
            (offset,) = struct.unpack_from("<H", self._frame, self._at)
            self._at += 2
            length = self._length(token & 15) + 4
            if not 0 < offset <= len(self._made):
                raise ValueError("it repeats what is not there")
            if len(self._made) + length > self._most:
                raise _too_large(self._most)
            start = len(self._made) - offset
            repeated = self._made[start : start + length]
            self._take((repeated * (-(-length // len(repeated))))[:length])


def _xxh32_of_few(data: bytes) -> int:
    """Return the hash XXH32, with the seed 0, of fewer than four bytes."""
    value = (374761393 + len(data)) & 0xFFFFFFFF
    for byte in data:
        value = (value + byte * 374761393) & 0xFFFFFFFF
        value = (((value << 11) | (value >> 21)) * 2654435761) & 0xFFFFFFFF
    value = ((value ^ (value >> 15)) * 2246822519) & 0xFFFFFFFF
    value = ((value ^ (value >> 13)) * 3266489917) & 0xFFFFFFFF
    return value ^ (value >> 16)
