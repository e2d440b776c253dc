"""Keep the reason why the session of a process has ended, as far as the process knows it."""

from __future__ import annotations

import os

from kernel_spec.errors import SessionEndedError


class SessionEnd:
    """Remembers the last words of the node agent, or how it was lost, and the identity that this process began with."""

    def __init__(self) -> None:
        self._began_as = os.geteuid()
        self._why = ""

    def announced(self, reason: str) -> None:
        """The agent says that the session ends, and why."""
        self._why = reason

    def lost(self, reason: str) -> None:
        """The agent is gone, or can't be reached any more. What it has said itself counts more."""
        self._why = self._why or reason

    def of_changed_user(self, error: Exception) -> str:
        """Return why the session can't go on, if `error` comes of this process having become another user; else "".

        That one has no access to the session's sockets.
        """
        now = os.geteuid()
        if not isinstance(error, PermissionError) or now == self._began_as:
            return ""
        return (
            f"this process began as user {self._began_as} and became user {now}, who may not reach the session's other "
            "processes; change the user before kernel.init()"
        )

    def error(self) -> SessionEndedError:
        """Return the error for calls after the session's end."""
        why, line_break, lines = (self._why or "its node agent died").partition("\n")
        return SessionEndedError(
            f"the session has ended, and its objects with it: {why}; "
            f"call kernel.shutdown() and kernel.init() to begin another{line_break}{lines}"
        )
