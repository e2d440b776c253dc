"""The task or actor call that is running, per thread and per coroutine."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple

LEAVING_SECONDS = 5.0
"""Seconds for which running calls may go on when an actor ends itself."""


class Execution(NamedTuple):
    """The task or actor call that runs here; `task` is empty outside of one.

    `constructs`: it is an actor's constructor, which may block though an event loop runs its thread.
    """

    task: bytes = b""
    name: str = ""
    attempt: int = 0
    constructs: bool = False


class ExitActor(BaseException):
    """Raised by `exit_actor()` to leave a method and end the actor."""


NO_EXECUTION = Execution()
current_execution: ContextVar[Execution] = ContextVar("kernel_execution", default=NO_EXECUTION)
