"""Functions and classes as bytes, with the names of their files: tracebacks look the lines up there."""

from __future__ import annotations

import io
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

_PROTOCOL = 5
_FILE_NAME = 10
"""Where the name of its file is among the arguments that make a code object."""

_reduce_code: Callable[[CodeType], tuple[Any, ...]] = cloudpickle.Pickler._dispatch_table[CodeType]


def _with_file(code: CodeType) -> tuple[Any, ...]:
    make, arguments = _reduce_code(code)
    return make, (*arguments[:_FILE_NAME], code.co_filename, *arguments[_FILE_NAME + 1 :])


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Newer cloudpickles leave the names of files out."""

    dispatch_table: ClassVar[Any] = ChainMap({CodeType: _with_file}, cloudpickle.Pickler.dispatch_table)


def dumps(value: Any, buffer_callback: Callable[[Any], Any] | None = None) -> bytes:
    """Return `value` as bytes, with what can't be imported elsewhere. Raises what its parts raise when pickled."""
    written = io.BytesIO()
    _Pickler(written, protocol=_PROTOCOL, buffer_callback=buffer_callback).dump(value)
    return written.getvalue()
