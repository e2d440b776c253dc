"""Getting the packages of an environment from the head, before the first worker of this node that runs in it."""

from __future__ import annotations

import os
from collections.abc import Callable

from kernel.control import words
from kernel.control.archives import check_digest
from kernel.node.packages import Packages
from kernel.transport.connection import Message
from kernel.transport.reactor import Reactor
from kernel_spec.errors import RuntimeEnvError

PATIENCE_SECONDS = 5.0
"""How long a piece may take before it is asked for again: the question may have been lost with a link to the head."""

Then = Callable[[RuntimeEnvError | None], None]


class PackageFetcher:
    """Fetches each package once, whoever waits for it, piece by piece, into a file. `send` reaches the head."""

    def __init__(self, packages: Packages, reactor: Reactor, send: Callable[[Message], None]) -> None:
        self._packages = packages
        self._reactor = reactor
        self._send = send
        self._waiting: dict[str, list[Then]] = {}

    def fetch(self, key: str, then: Then) -> None:
        """Call `then`, perhaps at once, when all packages of an environment are here, or with why they can't be."""
        missing = self._packages.missing(key)
        if not missing:
            then(None)
            return
        digest = missing[0]

        def fetched(error: RuntimeEnvError | None) -> None:
            if error is not None:
                then(error)
            else:
                self.fetch(key, then)

        waiting = self._waiting.setdefault(digest, [])
        waiting.append(fetched)
        if len(waiting) == 1:
            self._begin(digest)

    def on_piece(self, digest: str, offset: int, total: int, piece: bytes) -> None:
        """The head answers."""
        if digest not in self._waiting:
            return
        path = self._packages.partial(digest)
        try:
            if not total:
                raise RuntimeEnvError(
                    f"package {digest} of the runtime_env is not on this node, and the head has it no more; "
                    "call init() again"
                )
            if offset != os.path.getsize(path):
                return  # it was asked for twice
            with open(path, "ab") as file:
                file.write(piece)
            if offset + len(piece) < total:
                self._ask(digest, offset + len(piece))
                return
            check_digest(path, digest)
            self._packages.unpack(digest)
        except (RuntimeEnvError, OSError) as error:
            self._end(digest, error)
        else:
            self._end(digest, None)

    def _begin(self, digest: str) -> None:
        try:
            with open(self._packages.partial(digest), "wb"):
                pass
        except OSError as error:
            self._end(digest, error)
        else:
            self._ask(digest, 0)

    def _ask(self, digest: str, offset: int) -> None:
        self._send((words.WANT_PACKAGE, digest, offset))
        self._reactor.call_later(PATIENCE_SECONDS, lambda: self._ask_again(digest, offset))

    def _ask_again(self, digest: str, offset: int) -> None:
        path = self._packages.partial(digest)
        if digest in self._waiting and os.path.exists(path) and os.path.getsize(path) == offset:
            self._ask(digest, offset)

    def _end(self, digest: str, error: Exception | None) -> None:
        if isinstance(error, OSError):
            error = RuntimeEnvError(f"package {digest} can't be fetched to this node: {error}")
        for then in self._waiting.pop(digest):
            then(error)  # type: ignore[arg-type]
