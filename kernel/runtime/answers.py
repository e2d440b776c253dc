"""Answers that hold more than plain values. Only what this system has pickled itself is ever unpickled."""

from __future__ import annotations

import pickle
from typing import Any


class Pickled(bytes):
    """A value that the head has pickled for a process that asked; it travels as `REPLY_PICKLED`."""

    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> Pickled:
        """Pickle `value`."""
        return cls(pickle.dumps(value))

    def load(self) -> Any:
        """Return the value."""
        return pickle.loads(self)
