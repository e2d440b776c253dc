"""Frames of LZ4, as packed columns have them, by pyarrow.

The format is that of https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md, which the library lz4 has too.
"""

from __future__ import annotations

import importlib
from typing import Any

from kernel_rllib.errors import DataError, MissingDependencyError

MOST_BYTES = 2**31
"""A frame that holds more than this is refused: a few bytes can say that they stand for many."""
_PIECE = 4 * 1024 * 1024
"""How many bytes are unpacked at a time: what is asked for is reserved at once, so that it can't be all that may be."""


def can_pack() -> bool:
    """Return whether frames can be written and read: whether pyarrow is installed."""
    try:
        importlib.import_module("pyarrow")
    except ImportError:
        return False
    return True


def to_frame(data: bytes) -> bytes:
    """Return a compressed frame of these bytes. Raises MissingDependencyError if pyarrow is not installed."""
    frame: bytes = _pyarrow().compress(data, codec="lz4", asbytes=True)
    return frame


def of_frame(frame: bytes, most: int = MOST_BYTES) -> bytes:
    """Return what a frame holds.

    Args:
        frame: The frame.
        most: The largest number of bytes that it may hold.

    Raises:
        DataError: If it is no frame, ends too soon, or holds more.
        MissingDependencyError: If pyarrow is not installed.
    """
    arrow = _pyarrow()
    made = bytearray()
    try:
        with arrow.CompressedInputStream(arrow.BufferReader(frame), "lz4") as stream:
            while piece := stream.read(_PIECE):
                made += piece
                if len(made) > most:
                    raise DataError(
                        f"a packed column stands for more than {most:,} bytes: write batches of fewer steps"
                    )
    except OSError as error:
        raise DataError(f"a packed column is no whole frame of LZ4 ({error}): the file is damaged there") from None
    return bytes(made)


def _pyarrow() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingDependencyError(
            'packed columns are read and written by pyarrow: pip install pyarrow, or "kernel-rllib[offline]"'
        ) from error
