"""How arguments and results travel: as pickled bytes where that is safe, else by the kernel's own serialization.

Bytes are quicker for the many small values of a pool, and arrays arrive as copies that may be changed, as from the
standard library's pool. The kernel's own way is for everything that needs it: references and actor handles, which
are counted, and functions and classes that only the program itself has.
"""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any

_SAFE = frozenset(sys.stdlib_module_names) - {"__main__"} | {"builtins", "numpy"}
"""Top-level modules whose types and functions every worker can import."""

Payload = bytes | tuple[Any]
"""Pickled bytes, or the value as it is in a tuple."""


class _NotPlain(Exception):
    """A value holds something that is not for this pickler."""


class _Pickler(pickle.Pickler):
    """Pickles plain values; everything whose type or function is not from a safe module is refused."""

    def reducer_override(self, value: Any) -> Any:
        """Refuse what is not plain. Asked for everything but the built-in containers, numbers and strings."""
        named = value if isinstance(value, type) or callable(value) else type(value)
        module = getattr(named, "__module__", None) or ""
        if module.partition(".")[0] not in _SAFE:
            raise _NotPlain
        return NotImplemented


def pack(value: Any) -> Payload:
    """Return a value in the form in which it travels."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    except Exception:  # the kernel's own way either works, or says what is wrong
        return (value,)
    return buffer.getvalue()


def unpack(payload: Payload) -> Any:
    """Return the value."""
    return pickle.loads(payload) if isinstance(payload, bytes) else payload[0]
