"""Fetch the packages of an environment from the head, before the first worker of this node runs in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernel_engine.messages.named_messages import Message, packed
from kernel_processes.node.packages import Packages
from kernel_processes.protocol import head_messages
from kernel_processes.transport.background import Background
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import RuntimeEnvError

PATIENCE_SECONDS = 5.0
"""Seconds before a piece is requested again: the request may have been lost with a link to the head."""
CLOSE_SECONDS = 5.0

Then = Callable[[RuntimeEnvError | None], None]


class PackageFetcher:
    """Fetches each package once, piece by piece, into a file. `send(message)` reaches the head.

    Its methods are called from the loop. Files are read and written beside it, in a thread.
    """

    def __init__(self, packages: Packages, reactor: Reactor, send: Callable[[Message], None]) -> None:
        self._packages = packages
        self._reactor = reactor
        self._send = send
        self._background = Background(reactor, "packages")
        self._waiting: dict[str, list[Then]] = {}
        self._asked: dict[str, int] = {}
        """By package, the offset of the piece that is to come; nothing while one is written."""

    def fetch(self, digests: Sequence[str], then: Then) -> None:
        """Call `then` when all packages are here, or with the error; at once if no package has to be fetched."""
        if not digests:
            then(None)
            return

        def looked(missing: list[str] | Exception) -> None:
            if isinstance(missing, Exception):
                then(RuntimeEnvError(f"the packages of a runtime_env can't be looked for on this node: {missing}"))
            elif missing:
                self._fetch_one(missing[0], fetched)
            else:
                then(None)

        def fetched(error: RuntimeEnvError | None) -> None:
            if error is not None:
                then(error)
            else:
                self.fetch(digests, then)

        self._background.do(lambda: self._packages.missing(digests), looked)

    def on_piece(self, digest: str, offset: int, total: int, piece: bytes) -> None:
        """The head answers."""
        if self._asked.get(digest) != offset:
            return  # The piece was requested twice.
        if not total:
            text = f"package {digest} of the runtime_env is not on this node, and the head has it no more; "
            self._end(digest, RuntimeEnvError(text + "call init() again"))
            return
        del self._asked[digest]
        rest = offset + len(piece)

        def written(outcome: Exception | None) -> None:
            if outcome is not None or rest >= total:
                self._end(digest, outcome)
            else:
                self._ask(digest, rest)

        self._background.do(lambda: self._packages.add(digest, offset, total, piece), written)

    def close(self) -> None:
        """Write and unpack nothing more."""
        self._packages.close()
        self._background.close(CLOSE_SECONDS)

    def _fetch_one(self, digest: str, then: Then) -> None:
        waiting = self._waiting.setdefault(digest, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._ask(digest, 0)

    def _ask(self, digest: str, offset: int) -> None:
        self._asked[digest] = offset
        self._send(packed(head_messages.WantPackage(digest=digest, offset=offset)))
        self._reactor.call_later(PATIENCE_SECONDS, lambda: self._ask_again(digest, offset))

    def _ask_again(self, digest: str, offset: int) -> None:
        if self._asked.get(digest) == offset:
            self._ask(digest, offset)

    def _end(self, digest: str, error: Exception | None) -> None:
        self._asked.pop(digest, None)
        if error is not None and not isinstance(error, RuntimeEnvError):
            error = RuntimeEnvError(f"package {digest} can't be fetched to this node: {error}")
        for then in self._waiting.pop(digest):
            then(error)
