"""Pickle functions and classes by value, with the names of their files, in which tracebacks look lines up."""

from __future__ import annotations

import io
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

from kernel.pickling import reduce_code

_PROTOCOL = 5


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's pickler, which keeps the names of files."""

    dispatch_table: ClassVar[Any] = ChainMap({CodeType: reduce_code}, cloudpickle.Pickler.dispatch_table)


def dumps(value: Any, buffer_callback: Callable[[Any], Any] | None = None) -> bytes:
    """Return `value` as bytes, with what can't be imported elsewhere.

    Raises what its parts raise when they are pickled.
    """
    written = io.BytesIO()
    _Pickler(written, protocol=_PROTOCOL, buffer_callback=buffer_callback).dump(value)
    return written.getvalue()
