"""Limit the size of values in the session's key-value store: they pass through the loops of agent and head."""

from __future__ import annotations

from kernel_spec.errors import OptionError
from kernel_spec.metadata import LARGEST_VALUE_BYTES


def check_size(key: bytes, size: int) -> None:
    """Raise OptionError when a key with a value of `size` bytes is more than the store takes."""
    total = len(key) + size
    if total > LARGEST_VALUE_BYTES:
        name = f"the value of {key.decode(errors='replace')!r}" if size > len(key) else f"a key of {len(key)} bytes"
        raise OptionError(
            f"{name} can't be stored in a KeyValue: {total} bytes are more than {LARGEST_VALUE_BYTES} "
            f"({LARGEST_VALUE_BYTES >> 20} MB); keep it in an object (kernel.put) or a file, and store what names that"
        )
