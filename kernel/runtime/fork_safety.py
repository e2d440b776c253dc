"""A forked child is in no session: only the process that joined may speak on its connections."""

from __future__ import annotations

import os
from typing import Protocol

from kernel.runtime.current import leave_in_child


class Abandoned(Protocol):
    """What joins a session, and leaves it in a forked child."""

    def abandon(self) -> None:
        """Close everything in this child without a word to anybody: it belongs to the parent."""


joined: list[Abandoned] = []
"""What this program has joined sessions with."""


def _leave_in_child() -> None:
    while joined:
        joined.pop().abandon()
    leave_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_in_child)
