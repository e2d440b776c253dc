"""Free the memory of tables that were large once.

A dict keeps room for as many entries as it ever had, and the C library keeps memory that Python frees. Without this, a
program that once held a million references would never get that memory back.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import MutableMapping
from typing import Any

LEAST = 100_000
"""Tables that never had so many entries are left alone: they cost less memory than watching them costs time."""
_SHARE = 8


class Shrinking:
    """Shrinks a table that has far fewer entries than it once had. `look` is called now and then."""

    def __init__(self, table: MutableMapping[Any, Any]) -> None:
        self._table = table
        self._most = LEAST

    def look(self) -> bool:
        """Return whether the table was made small: it has an eighth of the entries that it had."""
        count = len(self._table)
        if count >= self._most:
            self._most = count
        elif self._most > LEAST and count < self._most // _SHARE:
            left = dict(self._table)
            self._table.clear()
            self._table.update(left)
            self._most = LEAST
            return True
        return False


def give_memory_back() -> None:
    """Have the C library return unused memory to the system. Takes some milliseconds; glibc only."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
