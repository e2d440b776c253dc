"""Take forked children out of the session: only the process that joined may use its connections."""

from __future__ import annotations

import os
from typing import Protocol

from kernel.runtime.current import leave_in_child


class Abandoned(Protocol):
    """Joins a session, and abandons it in a forked child."""

    def abandon(self) -> None:
        """Close everything in this child without sending anything: the connections are the parent's."""


joined: list[Abandoned] = []
"""The parts with which this program has joined sessions."""


def _leave_in_child() -> None:
    while joined:
        joined.pop().abandon()
    leave_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_in_child)
