"""Answers that hold more than plain values. Only bytes that this system pickled itself are ever unpickled."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any


class Pickled(bytes):
    """Holds a value that was pickled for a process that asked. The head sends it as `REPLY_PICKLED`.

    Inside another value that is pickled it stays as it is, and is unpickled with that value.
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
