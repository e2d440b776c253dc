"""Keep file names in functions that are pickled by value, so that tracebacks and debuggers find their lines.

Newer cloudpickles leave the names of files out of code objects. A pickler with `CodeType: reduce_code` in its
`dispatch_table` keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

import cloudpickle

_FILE_NAME = 10
"""Index of the file's name among the arguments that make a code object."""

_reduce: Callable[[CodeType], tuple[Any, ...]] = cloudpickle.Pickler._dispatch_table[CodeType]


def reduce_code(code: CodeType) -> tuple[Any, ...]:
    """Reduce `code` as `__reduce__` does, with the name of its file."""
    make, arguments = _reduce(code)
    # A string of its own: the name that code objects share would make equal functions unequal bytes.
    return make, (*arguments[:_FILE_NAME], "".join([code.co_filename]), *arguments[_FILE_NAME + 1 :])
