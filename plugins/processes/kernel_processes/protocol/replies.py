"""Answer a process's call: make a message of the value that a method returned, or the error that it raised."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from kernel.logs import Logger
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message
from kernel_processes.protocol.pickled import Pickled
from kernel_spec.errors import InternalError, KernelError


def outcome_of(name: str, method: Callable[..., Any], arguments: tuple[Any, ...], place: str, log: Logger) -> Any:
    """Return the result of a method, or the error for its caller.

    `place` ("the head") is named in an InternalError: an unforeseen error is written into `log` as well.
    """
    try:
        return method(*arguments)
    except KernelError as error:
        return error
    except Exception as error:
        log.exception("a request failed", method=name)
        return InternalError(f"{name} failed in {place}: {type(error).__name__}: {error}")


def reply(number: int, outcome: Any) -> Message:
    """Return the answer to call `number`. A KernelError is raised where it was asked for."""
    if isinstance(outcome, KernelError):
        return (op.REPLY_ERROR, number, pickle.dumps(outcome))
    if isinstance(outcome, Pickled):
        return (op.REPLY_PICKLED, number, bytes(outcome))
    return (op.REPLY, number, outcome)
