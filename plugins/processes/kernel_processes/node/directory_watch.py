"""Watch for the removal of a running session's directory, after which no process could join the session."""

from __future__ import annotations

from collections.abc import Callable

from kernel.logs import Logger
from kernel_processes.node import sessions
from kernel_processes.transport.background import Background
from kernel_processes.transport.reactor import Reactor

LOOK_SECONDS = 1.0


class DirectoryWatch:
    """Checks a session's files at intervals and when a worker died early, in a thread, because disks may hang.

    When they are gone it calls `end(missing)` with a text that names the missing file. Unless the session is ephemeral
    it makes the directory again, so that `kernel status` can show why the session has ended.
    """

    def __init__(
        self, directory: str, ephemeral: bool, reactor: Reactor, log: Logger, end: Callable[[str], None]
    ) -> None:
        self._directory = directory
        self._ephemeral = ephemeral
        self._reactor = reactor
        self._log = log
        self._end = end
        self._ended = False
        self._background = Background(reactor, "directory")

    def begin(self) -> None:
        """Start checking at intervals."""
        if not self._ended:
            self._reactor.call_later(LOOK_SECONDS, lambda: self.look(lambda missing: self.begin()))

    def look(self, then: Callable[[str], None]) -> None:
        """Call `then` from the loop with a text that names a missing file; with "" when all files exist."""

        def looked(missing: str | Exception) -> None:
            if isinstance(missing, Exception):
                missing = ""
            if missing and not self._ended:
                self._ended = True
                self._log.error("the session ends", reason=missing)
                self._end(missing)
            then(missing)

        self._background.do(self._missing, looked)

    def close(self) -> None:
        """Stop checking."""
        self._ended = True
        self._background.close(0.0)

    def _missing(self) -> str:
        missing = sessions.missing_files(self._directory)
        if missing and not self._ephemeral:
            sessions.make_again(self._directory)
        return missing
