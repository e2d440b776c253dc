"""What a trainable raised, on its way from the process of a run to the program: the exception itself, if it can be.

`carried` runs in the process of the run and can't fail. `rebuilt` makes an error that is both a `TrialError` and of the
user's own type, so that `except` clauses and `isinstance` go by what was raised.
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
"""In a run's directory: the tracebacks of all its failures."""
RAISED_FILE = "error.pkl"
"""Beside it: the exception by which the run failed last."""


def carried(error: BaseException) -> bytes:
    """Return an exception as bytes, without attributes that can't be pickled; nothing where its class can't be."""
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
    """Return the traceback of an error of the user's code, as text; it begins with the user's first line.

    What stands before that, of kernel_runs and of the package `library`, is left out.
    """
    ours = ("kernel_runs", library)
    trace = error.__traceback__
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] in ours:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()


def error_in(directory: str) -> TrialError | None:
    """Return the error that is written down in a run's directory, None where there is none."""
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
    """Return the error with this message, and of the type of the exception in `data`, which is its `cause`."""
    if data:
        with contextlib.suppress(Exception):  # a class that is not here, or that none can be derived from
            kind, args, attributes = pickle.loads(data)
            if issubclass(kind, Exception):
                error = _made(_class_for(kind), args, attributes)
                error.__dict__.update(_message=message, _data=data, cause=_made(kind, args, attributes))
                made: TrialError = error
                return made
    return TrialError(message)


def _made(kind: type[Any], args: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Return an exception as it was: its own `__init__` may want other arguments, and is not called."""
    native: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins" and base is not Exception)
    # Errors of the system take their number and path there, which the `__new__` of our errors doesn't know.
    error = native.__new__(kind, *args) if issubclass(native, OSError) else kind.__new__(kind, *args)
    native.__init__(error, *args)
    error.__dict__.update(attributes)
    return error


@lru_cache(maxsize=256)
def _class_for(kind: type[Exception]) -> type[TrialError]:
    """Return the class of errors that are `TrialError` and `kind` both."""
    bases = (TrialError,) if issubclass(TrialError, kind) else (TrialError, kind)
    namespace = {
        "__module__": TrialError.__module__,
        "__doc__": f"A trial raised {kind.__name__}.",
        "__str__": lambda self: self._message,
        "__reduce_ex__": lambda self, protocol: (rebuilt, (self._message, self._data)),
    }
    return type(f"TrialError[{kind.__name__}]", bases, namespace)
