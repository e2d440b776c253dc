"""Values as bytes: JSON, with arrays as lists; or JSON with the bytes of arrays behind it. Never a pickle.

| kind | content type | body |
|---|---|---|
| JSON | `application/json` | the value; arrays are lists, tuples `{"$tuple": [...]}` |
| arrays | `application/x-kernel-arrays` | `KAR1`, the length of the JSON (uint32, little endian), JSON, arrays |

In the second kind an array is `{"$array": [dtype, shape, offset]}`: so many bytes behind the JSON, in C order. A dict
whose keys are not all plain strings is `{"$items": [[key, value], ...]}`.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np

from kernel_rllib.errors import DataError

JSON = "application/json"
ARRAYS = "application/x-kernel-arrays"
_MAGIC = b"KAR1"
_HEAD = struct.Struct("<4sI")
_KINDS = "biufc"
"""The kinds of dtypes that arrays may have: numbers, and what is true or false."""


def packed(value: Any, kind: str) -> bytes:
    """Return a value as bytes of a content type.

    Raises:
        DataError: If something in it is no number, text, array, list, tuple or dict.
    """
    arrays: list[bytes] = []
    text = json.dumps(_Packing(arrays if kind == ARRAYS else None)(value), separators=(",", ":")).encode()
    if kind == JSON:
        return text
    return b"".join((_HEAD.pack(_MAGIC, len(text)), text, *arrays))


def require_sendable(value: Any, what: str) -> None:
    """Raise DataError if a value can't be packed; `what` it is begins the message."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return
    try:
        _Packing([])(value)
    except DataError as error:
        raise DataError(f"{what} can't be sent: {error}") from None


def unpacked(data: bytes, kind: str) -> Any:
    """Return the value of bytes of a content type; arrays can only be read.

    Raises:
        DataError: If the bytes are no such value, or the content type is another one.
    """
    if kind not in (JSON, ARRAYS):
        raise DataError(f"the content type is {kind!r}, but must be {JSON!r} or {ARRAYS!r}")
    try:
        if kind == JSON:
            return _unpack(json.loads(data), memoryview(b""))
        magic, length = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError(f"it begins with {magic!r}, not with {_MAGIC!r}")
        rest = memoryview(data)[_HEAD.size :]
        if length > len(rest):
            raise ValueError(f"its JSON has {length} bytes, and {len(rest)} are there")
        return _unpack(json.loads(bytes(rest[:length])), rest[length:])
    except (ValueError, TypeError, KeyError, struct.error, RecursionError) as error:
        raise DataError(f"a body of {len(data)} bytes is no value of {kind}: {error}") from None


class _Packing:
    """Makes of a value what JSON can say."""

    def __init__(self, arrays: list[bytes] | None) -> None:
        """Put the bytes of arrays there; None: make lists of them."""
        self._arrays = arrays
        self._offset = 0

    def __call__(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, tuple):
            return {"$tuple": [self(part) for part in value]}
        if isinstance(value, list):
            return [self(part) for part in value]
        if isinstance(value, dict):
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return {key: self(part) for key, part in value.items()}
            return {"$items": [[self(key), self(part)] for key, part in value.items()]}
        raise DataError(
            f"{value!r} ({type(value).__name__}) can't be sent: send numbers, texts, arrays of numbers, and lists, "
            "tuples and dicts of such"
        )

    def _array(self, value: np.ndarray[Any, Any]) -> Any:
        if value.dtype.kind not in _KINDS:
            raise DataError(f"an array of dtype {value.dtype} can't be sent: send numbers")
        if self._arrays is None:
            return value.tolist()
        data = np.ascontiguousarray(value).tobytes()
        self._arrays.append(data)
        offset, self._offset = self._offset, self._offset + len(data)
        return {"$array": [value.dtype.str, list(value.shape), offset]}


def _unpack(value: Any, data: memoryview) -> Any:
    if isinstance(value, list):
        return [_unpack(part, data) for part in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((tag, content),) = value.items()
        if tag == "$tuple":
            return tuple(_unpack(part, data) for part in content)
        if tag == "$items":
            return {_hashable(_unpack(key, data)): _unpack(part, data) for key, part in content}
        if tag == "$array":
            return _array(content, data)
    return {key: _unpack(part, data) for key, part in value.items()}


def _hashable(key: Any) -> Any:
    if isinstance(key, (list, dict, np.ndarray)):
        raise ValueError(f"{key!r} can't be the key of a dict")
    return key


def _array(content: Any, data: memoryview) -> Any:
    name, shape, offset = content
    dtype = np.dtype(str(name))
    if dtype.kind not in _KINDS or any(not isinstance(size, int) or size < 0 for size in (*shape, offset)):
        raise ValueError(f"{content!r} describes no array of numbers")
    count = math.prod(shape)
    if offset + count * dtype.itemsize > len(data):
        raise ValueError(f"an array of {count * dtype.itemsize} bytes at {offset} is beyond the {len(data)} there")
    return np.frombuffer(data, dtype, count, offset).reshape(shape)
