"""Receive packages of runtime environments from programs and send them to nodes; a thread reads and writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel.logs import Logger
from kernel_engine.messages.named_messages import packed
from kernel_processes.head.archives import Archives
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.replies import outcome_of
from kernel_processes.transport.background import Background
from kernel_processes.transport.reactor import Reactor

CLOSE_SECONDS = 5.0
"""Seconds that `close` waits for a piece of an archive that is being read or written."""


class PackageService:
    """Keeps archives below `directory`. Runs in the head's loop, and works with files in a thread of its own."""

    def __init__(self, dispatcher: MessageDispatcher, directory: str, reactor: Reactor, log: Logger) -> None:
        self._archives = Archives(directory)
        self._background = Background(reactor, "archives")
        self._log = log
        dispatcher.methods |= {"has_package": self._has, "add_package": self._add}
        dispatcher.on(head_messages.WantPackage, self._want)

    def close(self) -> None:
        """Finish what is being read or written, for `CLOSE_SECONDS` at most."""
        self._background.close(CLOSE_SECONDS)

    def _has(self, caller: ProcessRecord, digest: str) -> Deferred:
        """Return whether the head has a package."""
        return self._beside("has_package", lambda: self._archives.has(digest))

    def _add(self, caller: ProcessRecord, digest: str, offset: int, total: int, piece: bytes) -> Deferred:
        """Take a piece of a package."""
        sender, archives = caller.id.hex(), self._archives
        return self._beside("add_package", lambda: archives.add(sender, digest, offset, total, piece))

    def _want(self, node: NodeRecord, said: head_messages.WantPackage) -> None:
        def read(found: tuple[int, bytes] | Exception) -> None:
            total, piece = (0, b"") if isinstance(found, Exception) else found
            node.send(packed(head_messages.PackagePiece(said.digest, said.offset, total=total, piece=piece)))

        self._background.do(lambda: self._archives.piece(said.digest, said.offset), read)

    def _beside(self, method: str, work: Callable[[], Any]) -> Deferred:
        """Run `work`, which reads or writes files, in the thread; its result or error is the answer."""
        deferred = Deferred()

        def done(outcome: Any) -> None:
            def again() -> Any:
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome

            deferred.set(outcome_of(method, again, (), "the head", self._log))

        self._background.do(work, done)
        return deferred
