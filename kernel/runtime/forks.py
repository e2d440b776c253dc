"""A forked child is in no session: only the process that joined may speak on its connections."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kernel.runtime.current import leave_in_child

if TYPE_CHECKING:
    from kernel.runtime.process import Process

joined: list[Process] = []
"""The sessions this program is in."""


def _leave_in_child() -> None:
    while joined:
        joined.pop().abandon()
    leave_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_in_child)
