"""Detect a process that has become another user, and so has no access to the session's sockets any more."""

from __future__ import annotations

import os


class ChangedUser:
    """Remembers as whom this process began."""

    def __init__(self) -> None:
        self._began_as = os.geteuid()

    def explain(self, error: Exception) -> str:
        """Return why the session can't go on, if `error` comes of another user; else nothing."""
        now = os.geteuid()
        if not isinstance(error, PermissionError) or now == self._began_as:
            return ""
        return (
            f"this process began as user {self._began_as} and became user {now}, who may not reach the session's other "
            "processes; change the user before kernel.init()"
        )
