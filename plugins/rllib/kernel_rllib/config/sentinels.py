"""Two values that stand for no value: an argument that was not given, and a setting that a user has not touched."""

from __future__ import annotations

from typing import Any

DEPRECATED_VALUE = -1
"""The value of a deprecated name in older dicts, which means that the name was not set."""


class _NotProvided:
    """The default of each argument of a fluent method. None is a value; this is none."""

    _only: _NotProvided | None = None

    def __new__(cls) -> _NotProvided:
        """Return the only one there is."""
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "NOT_PROVIDED"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "NOT_PROVIDED"


NOT_PROVIDED: Any = _NotProvided()
"""An argument with this value leaves its setting as it is."""


def is_deprecated_value(value: Any) -> bool:
    """Return whether a value says that it was not set."""
    return type(value) is int and value == DEPRECATED_VALUE
