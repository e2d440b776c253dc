"""Limit the size of what a function captures, and name the variable that makes it too large.

A function of a program is sent by value, with the variables, default arguments and globals that it uses, to every
worker that runs it. Large values among them should be objects, which are stored once.
"""

from __future__ import annotations

import io
import os
import pickle
from typing import TYPE_CHECKING, Any

from kernel.logs import Logger
from kernel.runtime.critical_sections import is_from_outside
from kernel.runtime.in_progress import Capture
from kernel_engine.serialization.pickled_parts import parts_of
from kernel_spec.errors import OptionError, SerializationError

if TYPE_CHECKING:
    from types import FunctionType

    from kernel_engine.serialization.value_pickler import ReducerSource

LIMIT_BYTES = 100_000_000
"""Maximum size of a function's captures. `KERNEL_CAPTURE_LIMIT` (bytes) sets another limit, with 0 none."""
WARN_BYTES = 10_000_000
"""A function whose captures are of this size or larger is named in a warning."""
_DEPTH = 5
"""Depth of the search for a large part in functions that a function uses and in methods of a class."""
_MB = 1_000_000

_log = Logger("kernel")


class CapturesTooLargeError(Exception):
    """Raised when more is written than the limit allows."""


class _Bounded(io.BytesIO):
    """Keeps written bytes, up to a limit. Large values are written whole, so that they are never copied in vain."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._left = limit

    def write(self, data: Any) -> int:
        """Keep `data`; raises CapturesTooLargeError."""
        self._left -= memoryview(data).nbytes
        if self._left < 0:
            raise CapturesTooLargeError
        return super().write(data)

    def announce(self, buffer: pickle.PickleBuffer) -> bool:
        """Refuse a piece that pickle is about to write before it is copied; else return that it may be written."""
        if buffer.raw().nbytes > self._left:
            raise CapturesTooLargeError
        return True


class _Counter:
    """Counts written bytes without keeping them. Arrays are not even written: `announce` counts them."""

    def __init__(self, limit: int) -> None:
        self.size = 0
        self._left = limit

    def write(self, data: Any) -> int:
        """Count `data`; raises CapturesTooLargeError."""
        size = memoryview(data).nbytes
        self.size += size
        self._left -= size
        if self._left < 0:
            raise CapturesTooLargeError
        return size

    def announce(self, buffer: pickle.PickleBuffer) -> bool:
        """Count what would be written in one piece; return that it need not be."""
        self.size += buffer.raw().nbytes
        return False


def limit_bytes() -> int:
    """Return the most that a function may take along, in bytes. Raises OptionError for a limit that is no number."""
    said = os.environ.get("KERNEL_CAPTURE_LIMIT", "")
    if not said:
        return LIMIT_BYTES
    try:
        return int(said) or 1 << 62
    except ValueError:
        raise OptionError(f"KERNEL_CAPTURE_LIMIT={said!r} must be a number of bytes, or 0 for no limit") from None


def pickle_bounded(function: Any, serializer: ReducerSource) -> bytes:
    """Return `function` (or class) as a pickle. Raises CapturesTooLargeError as soon as it would exceed the limit."""
    from kernel_engine.serialization.value_pickler import ValuePickler

    file = _Bounded(limit_bytes())
    ValuePickler(file, serializer, file.announce).dump(function)
    return file.getvalue()


def too_large(function: Any, serializer: ReducerSource) -> SerializationError:
    """Return the error for a function that takes too much along."""
    limit = limit_bytes()
    variable, size = _largest(function, serializer, limit)
    text = (
        f"can't send the {_called(function)}: it takes along {variable}, at least {_megabytes(size)}, and the limit is "
        f"{_megabytes(limit)}, as that goes to every worker. Store it once, ref = kernel.put(...), and pass ref as an "
        "argument, or use kernel.get(ref) inside. KERNEL_CAPTURE_LIMIT (bytes, 0: none) sets another limit."
    )
    return SerializationError(text)


def warn_of(function: Any, size: int, serializer: ReducerSource) -> None:
    """Log that a function takes much along: `size` bytes in all."""
    variable, part = _largest(function, serializer, size)
    _log.warning(
        f"the {_called(function)} takes along {variable}, {_megabytes(part)}, to every worker; "
        "store it once with kernel.put(), and pass the reference"
    )


def _largest(function: Any, serializer: ReducerSource, limit: int) -> tuple[str, int]:
    """Return the name of the largest thing that `function` captures, and its size in bytes.

    The search stops at the first one that is larger than `limit`.
    """
    found, size = function, 0
    description = "its own code"
    for _ in range(_DEPTH):
        largest: tuple[str, Any, int] = ("", None, 0)
        for path, part in parts_of(found, "", serializer):
            part_size = _size(part, serializer, limit)
            if part_size > largest[2]:
                largest = path, part, part_size
            if part_size > limit:
                break
        path, part, part_size = largest
        if part_size * 2 < size or not part_size:  # Of many small parts the total says more.
            break
        description, size = _variable(found, path), part_size
        if not isinstance(part, type) and not hasattr(part, "__code__"):
            break
        found = part
    return description, size


def _size(part: Any, serializer: ReducerSource, limit: int) -> int:
    """Return how many bytes a value would be; of one that is no array, no more than `limit` are counted."""
    from kernel_engine.serialization.value_pickler import ValuePickler

    counter = _Counter(limit)
    try:
        with Capture():
            ValuePickler(counter, serializer, counter.announce).dump(part)  # type: ignore[arg-type]
    except Exception as error:  # It is too large or can't be sent for another reason: its size so far counts.
        if is_from_outside(error):
            raise
    return counter.size


def _variable(found: FunctionType | type, path: str) -> str:
    """Return what users call the part at `path` of a function or class."""
    kind, _, rest = path.lstrip(".").partition("[")
    name = rest.rstrip("]").strip('"')
    if kind == "__defaults__":
        code = found.__code__  # type: ignore[union-attr]
        first = code.co_argcount - len(found.__defaults__ or ())  # type: ignore[union-attr,operator]
        return f"the default of its argument {code.co_varnames[first + int(name)]!r}"
    if kind == "__kwdefaults__":
        return f"the default of its argument {name!r}"
    if kind == "__closure__":
        return f"the variable {name!r}"
    if kind == "__globals__":
        return f"the global variable {name!r}"
    return f"the attribute {kind!r}"


def _called(function: Any) -> str:
    name = getattr(function, "__name__", None) or type(function).__name__
    return f"class {name}" if isinstance(function, type) else f"function {name}()"


def _megabytes(size: int) -> str:
    return f"{size / _MB:,.0f} MB"
