"""JSON for any value, readable by every JSON parser."""

from __future__ import annotations

import json
import math
from typing import Any

_INFINITY = {math.inf: "\x00inf\x00", -math.inf: "\x00-inf\x00"}
_NUMBERS = {'"\\u0000inf\\u0000"': "1e999", '"\\u0000-inf\\u0000"': "-1e999"}
_DEEPEST = 64


def _substitute(value: Any) -> Any:
    """Return a substitute for a value that JSON can't represent: numbers and arrays as such, others as text."""
    convert = getattr(value, "tolist", None)  # numpy's scalars and arrays, and tensors
    if convert is not None and not isinstance(value, type):
        try:
            return convert()
        except Exception:  # a foreign object may raise anything; its text is good enough for a log
            return text_of(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    return text_of(value)


def text_of(value: Any) -> str:
    """Return `str(value)`, or the name of its type if that raises."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__module__}.{type(value).__qualname__}>"


def plain(value: Any, depth: int = 0) -> Any:
    """Return a copy of dicts, lists, strings and numbers only. NaN becomes None, infinity a mark of its own."""
    if isinstance(value, float) and not math.isfinite(value):
        return _INFINITY.get(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    if depth > _DEEPEST:  # one that contains itself, say
        return f"<{type(value).__name__}>"
    if isinstance(value, dict):
        return {key if isinstance(key, str) else _key_of(key): plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner, depth + 1) for inner in value]
    return plain(_substitute(value), depth + 1)


def _key_of(key: Any) -> str:
    """Return a key of a dict as JSON writes it."""
    return json.dumps(key) if key is None or isinstance(key, (bool, int)) else text_of(key)


_ENCODER = json.JSONEncoder(allow_nan=False, default=_substitute)


def to_json(value: Any, indent: int | None = None, sort_keys: bool = False) -> str:
    """Return a value as one line of JSON, or as several lines with `indent`.

    numpy's numbers and arrays become numbers and lists, NaN becomes `null`, infinity `1e999` (valid JSON that is read
    as infinity), and other objects become their text. So every value can be written, and every parser can read it.
    """
    encoder = _ENCODER
    if indent is not None or sort_keys:
        encoder = json.JSONEncoder(allow_nan=False, default=_substitute, indent=indent, sort_keys=sort_keys)
    try:
        return encoder.encode(value)
    except (ValueError, TypeError, RecursionError):  # NaN, infinity, keys that are no strings, cycles
        text = encoder.encode(plain(value))
        for mark, number in _NUMBERS.items():
            text = text.replace(mark, number)
        return text
