"""Values as bytes, for calls between Python processes: by plain pickle where that is enough, else by cloudpickle."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import kernel
from kernel_serve.wire import by_value
from kernel_spec.errors import SerializationError

LARGE = 384 << 10
"""The size in bytes from which arrays, and other memory, go through the object store.

There they are copied once, over a link several times.
"""
LARGE_PICKLE = 4 << 20
"""The same for values that pickle must traverse, which the object store makes it do once more."""

_BY_VALUE = b"__main__"
"""The module whose functions and classes must travel by value: they can't be imported elsewhere."""

_OneOfBuffers = Callable[[pickle.PickleBuffer], bool]


class _LargeError(Exception):
    """The value has a large buffer, so that the rest of it need not be pickled."""


def _stays(buffer: pickle.PickleBuffer) -> bool:
    if buffer.raw().nbytes >= LARGE:
        raise _LargeError
    return True


def dumps(value: Any, buffer_callback: _OneOfBuffers | None = None) -> bytes:
    """Return a value as bytes. Raises SerializationError for a value that can't be pickled.

    `buffer_callback` is as for pickle: buffers for which it returns False are left out.
    """
    try:
        data = pickle.dumps(value, 5, buffer_callback=buffer_callback)
    except _LargeError:
        raise
    except Exception:  # cloudpickle may be able to, or has a better message
        return _dumped_whole(value, buffer_callback)
    return _dumped_whole(value, buffer_callback) if _BY_VALUE in data else data


def pack(value: Any) -> bytes | None:
    """Return a value as bytes; None for a value that must go through the object store.

    That is a large one, and one with references inside, which only the kernel can count. Raises SerializationError for
    a value that can't be pickled.
    """
    if type(value) is bytes and len(value) >= LARGE:
        return None
    try:
        with kernel.collect_references() as references:
            data = dumps(value, _stays)
    except _LargeError:
        return None
    return None if references or len(data) >= LARGE_PICKLE else data


def loads(data: bytes) -> Any:
    """Return the value that `dumps` returned as bytes."""
    return pickle.loads(data)


def _dumped_whole(value: Any, buffer_callback: _OneOfBuffers | None) -> bytes:
    try:
        return by_value.dumps(value, buffer_callback)
    except _LargeError:
        raise
    except Exception as error:
        raise SerializationError(
            f"a {type(value).__name__} can't be sent to another process: {error}; "
            "send plain data, and make sockets, locks and open files where they are used"
        ) from error
