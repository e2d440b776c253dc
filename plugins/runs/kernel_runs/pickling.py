"""What can't be sent to another process, or written down: the variable that is to blame, by name."""

from __future__ import annotations

from typing import Any

import kernel
from kernel.exceptions import SerializationError
from kernel_runs.errors import RunError


class PicklingError(RunError, TypeError):
    """A trainable, or something that it uses, can't be sent to another process."""


def put(value: Any, what: str, name: str, hint: str) -> kernel.ObjectRef:
    """Put a value into the object store; raise `PicklingError` that says which variable of it can't be pickled.

    `what` is what the value is for, `name` what it is called, `hint` what else to do.
    """
    try:
        return kernel.put(value)
    except SerializationError as error:
        raise PicklingError(
            f"{what} can't be sent to the processes of trials: {_blamed(error, name)}\n{hint}"
        ) from error


def why_not(value: Any, name: str) -> str:
    """Return which variable of a value can't be pickled, nothing where that can't be told."""
    try:
        kernel.put(value)
    except SerializationError as error:
        return _blamed(error, name)
    except Exception:  # no session, no room
        return ""
    return ""


def _blamed(error: SerializationError, name: str) -> str:
    """Return what an error says, with the path to the culprit beginning with `name`."""
    text = str(error).split(": ", 1)[-1]
    for prefix in ("value.function", "value"):
        text = text.replace(f"{prefix}.", f"{name}.").replace(f"{prefix}[", f"{name}[")
    return text
