"""What a trainable raised, on its way from the process of a trial to the program: the exception itself, if it can be.

`carried` runs in the trial's process and can't fail. `error_of` makes an error that is both a `TrialError` and of the
user's own type, so that `except` clauses and `isinstance` go by what was raised.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from functools import lru_cache
from typing import Any

import cloudpickle

from kernel_tune.errors import TrialError
from kernel_tune.trial import Status, Trial

ERROR_FILE = "error.txt"
"""In a trial's directory: the tracebacks of all its failures."""
RAISED_FILE = "error.pkl"
"""Beside it: the exception by which the trial failed last."""


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


def error_of(trial: Trial) -> TrialError | None:
    """Return the error of a trial that has failed for good: of the user's type where that could be carried."""
    if trial.status is not Status.ERROR:
        return None
    message = trial.error_message
    if not message and trial.error_file and os.path.exists(trial.error_file):
        with open(trial.error_file, encoding="utf-8", errors="replace") as file:
            message = file.read().strip()
    data = trial.raised
    if not data and not trial.error_message:  # of a directory that was read
        with contextlib.suppress(OSError), open(os.path.join(trial.logdir, RAISED_FILE), "rb") as pickled:
            data = pickled.read()
    return rebuilt(message or f"{trial} failed", data)


def rebuilt(message: str, data: bytes) -> TrialError:
    """Return the error with this message, and of the type of the exception in `data`, which is its `cause`."""
    if data:
        with contextlib.suppress(Exception):  # a class that is not here, or that none can be derived from
            kind, args, attributes = pickle.loads(data)
            if issubclass(kind, Exception):
                error = _made(_class_for(kind), args, attributes)
                error.__dict__.update(_message=message, _data=data, cause=_made(kind, args, attributes))
                return error
    return TrialError(message)


def _made(kind: type[Any], args: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Return an exception as it was: its own `__init__` may want other arguments, and is not called."""
    native = next(base for base in kind.__mro__ if base.__module__ == "builtins" and base is not Exception)
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
