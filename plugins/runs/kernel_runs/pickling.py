"""Finding the variable that keeps a value from being pickled, by name."""

from __future__ import annotations

from typing import Any

import kernel
from kernel.exceptions import SerializationError
from kernel_runs.errors import RunError


class PicklingError(RunError, TypeError):
    """A trainable, or something that it uses, can't be sent to another process."""


def put(value: Any, what: str, name: str, hint: str) -> kernel.ObjectRef:
    """Put a value into the object store. Raises `PicklingError` that names the variable which can't be pickled.

    `what` says what the value is for, `name` is its name, `hint` is advice for the end of the message.
    """
    try:
        return kernel.put(value)
    except SerializationError as error:
        raise PicklingError(
            f"{what} can't be sent to the processes of trials: {_blamed(error, name)}\n{hint}"
        ) from error


def why_not(value: Any, name: str) -> str:
    """Return which variable of a value can't be pickled; "" if that can't be found out."""
    try:
        kernel.put(value)
    except SerializationError as error:
        return _blamed(error, name)
    except Exception:  # no session, no room
        return ""
    return ""


def _blamed(error: SerializationError, name: str) -> str:
    """Return the message of an error, with the path to the variable beginning with `name`."""
    text = str(error).split(": ", 1)[-1]
    for prefix in ("value.function", "value"):
        text = text.replace(f"{prefix}.", f"{name}.").replace(f"{prefix}[", f"{name}[")
    return text
