"""Answers that hold more than plain values. Only what this system has pickled itself is ever unpickled."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any


class Pickled(bytes):
    """A value that was pickled for a process that asked; as an answer of the head it travels as `REPLY_PICKLED`.

    Inside of another value that is pickled it stays as it is, and is unpickled with that.
    """

    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> Pickled:
        """Pickle `value`."""
        return cls(pickle.dumps(value))

    def load(self) -> Any:
        """Return the value."""
        return pickle.loads(self)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        return pickle.loads, (bytes(self),)
