"""Exceptions of trainables, sent from the process of a run to the driver.

`carried` runs in the process of the run and never raises. `rebuilt` makes an error that is both a `TrialError` and of
the user's own type, so that `except` clauses and `isinstance` match the original exception.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import traceback
from functools import lru_cache
from typing import Any

import cloudpickle

from kernel_runs.errors import TrialError

ERROR_FILE = "error.txt"
"""The file in a run's directory with the tracebacks of all its failures."""
RAISED_FILE = "error.pkl"
"""The file in a run's directory with the pickled exception of its last failure."""


def carried(error: BaseException) -> bytes:
    """Return an exception as bytes, without attributes that can't be pickled. Return b"" if its class can't be."""
    args = OSError.__reduce__(error)[1] if isinstance(error, OSError) else error.args
    attributes = dict(error.__dict__)
    try:
        return _dumped((type(error), args, attributes))
    except Exception:  # whatever an object raises when it is pickled
        attributes = {name: value for name, value in attributes.items() if _can_be_pickled(value)}
    try:
        return _dumped((type(error), args, attributes))
    except Exception:  # see above
        return b""


def _dumped(value: Any) -> bytes:
    data = bytes(cloudpickle.dumps(value, protocol=5))
    pickle.loads(data)
    return data


def _can_be_pickled(value: Any) -> bool:
    try:
        return bool(_dumped(value))
    except Exception:  # see above
        return False


def text_of(error: BaseException, library: str = "") -> str:
    """Return the traceback of an error in the user's code as text. It begins with the user's first line.

    Earlier lines, of kernel_runs and of the package `library`, are left out.
    """
    ours = ("kernel_runs", library)
    trace = error.__traceback__
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] in ours:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()


def error_in(directory: str) -> TrialError | None:
    """Return the error that is stored in a run's directory, or None."""
    path = os.path.join(directory, ERROR_FILE)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read().strip()
    data = b""
    with contextlib.suppress(OSError), open(os.path.join(directory, RAISED_FILE), "rb") as pickled:
        data = pickled.read()
    return rebuilt(text or f"{directory} failed", data)


def rebuilt(message: str, data: bytes) -> TrialError:
    """Return an error with this message, and of the type of the exception in `data`, which is its `cause`."""
    if data:
        with contextlib.suppress(Exception):  # a class that can't be imported here, or that can't be subclassed
            kind, args, attributes = pickle.loads(data)
            if issubclass(kind, Exception):
                error = _made(_class_for(kind), args, attributes)
                error.__dict__.update(_message=message, _data=data, cause=_made(kind, args, attributes))
                made: TrialError = error
                return made
    return TrialError(message)


def _made(kind: type[Any], args: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Return an exception without calling its own `__init__`, which may need other arguments."""
    native: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins" and base is not Exception)
    # OSErrors take their number and path in `__new__`; the `__new__` of our own error classes does not accept them.
    error = native.__new__(kind, *args) if issubclass(native, OSError) else kind.__new__(kind, *args)
    native.__init__(error, *args)
    error.__dict__.update(attributes)
    return error


@lru_cache(maxsize=256)
def _class_for(kind: type[Exception]) -> type[TrialError]:
    """Return a class of errors that derives from `TrialError` and from `kind`."""
    bases = (TrialError,) if issubclass(TrialError, kind) else (TrialError, kind)
    namespace = {
        "__module__": TrialError.__module__,
        "__doc__": f"A trial raised {kind.__name__}.",
        "__str__": lambda self: self._message,
        "__reduce_ex__": lambda self, protocol: (rebuilt, (self._message, self._data)),
    }
    return type(f"TrialError[{kind.__name__}]", bases, namespace)
