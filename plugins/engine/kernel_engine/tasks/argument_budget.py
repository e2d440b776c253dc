"""Limit the memory that arguments of unfinished calls take in the calling process. Pure.

Calls may be submitted much faster than they run. Arguments that are small enough for messages wait in the caller. So
that they do not fill its memory, the larger ones go to the object store once they exceed a budget. The store has a
limit, and a disk to spill to.
"""

from __future__ import annotations

from typing import Protocol

from kernel_engine.objects.value_placement import INLINE_BYTES

BUDGET_BYTES = 256 << 20
"""Maximum number of bytes of arguments that may wait in the memory of a process."""
SMALL_BYTES = 4 << 10
"""Smaller arguments always travel inside messages, and are not counted: a call itself takes half a kilobyte."""


class Weighty(Protocol):
    """Is a call. `weight` is the size of those arguments that count, in bytes: 0 if they are small, or stored."""

    weight: int


class ArgumentBudget:
    """Counts waiting arguments. Those of up to `largest` bytes travel inside messages at present."""

    def __init__(self, budget: int = BUDGET_BYTES) -> None:
        self.waiting = 0
        self.largest = INLINE_BYTES
        self._budget = budget

    def begin(self, call: Weighty) -> None:
        """Count the arguments of a call that waits."""
        self._change(call.weight)

    def end(self, call: Weighty) -> None:
        """Stop counting the arguments of a call that has ended, and set its weight to 0."""
        self._change(-call.weight)
        call.weight = 0

    def _change(self, size: int) -> None:
        self.waiting += size
        self.largest = INLINE_BYTES if self.waiting < self._budget else SMALL_BYTES
