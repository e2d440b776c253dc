"""A direct connection between every two members of a group, and messages over them.

Connections are made once, when the group is formed. A member that is gone closes its connections, which every other
member sees: that is how an operation knows whom it waits for in vain.
"""

from __future__ import annotations

import hmac
import select
import socket
import time
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from kernel_parallel.collective.errors import GroupError, RankDiedError, RankTimeoutError, names_of
from kernel_parallel.collective.messages import IncomingMessage, Outgoing, Tag

_LOOK_SECONDS = 0.5
_DOUBT_SECONDS = 2.0
"""Seconds without progress before the loss of a member that is not itself awaited is taken for the reason."""
_PROOF_BYTES = 32
_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class StallWatch(Protocol):
    """Whom a mesh tells that it waits, and asks who is to blame."""

    def waiting(self, operation: str, ranks: Iterable[int]) -> None:
        """Hear that this member has waited for these ranks for a while."""

    def to_blame(self, ranks: Iterable[int]) -> list[int]:
        """Return the ranks that are waited for in the end."""


class Alone:
    """A watch that nobody else hears of."""

    def waiting(self, operation: str, ranks: Iterable[int]) -> None:
        """Tell nobody."""

    def to_blame(self, ranks: Iterable[int]) -> list[int]:
        """Blame the ranks themselves."""
        return sorted(ranks)


class Mesh:
    """The connections of one member. `timeout`: seconds without any progress after which an operation fails."""

    def __init__(
        self, group: str, rank: int, links: dict[int, socket.socket], timeout: float, watch: StallWatch
    ) -> None:
        self.group = group
        self.rank = rank
        self.size = len(links) + 1
        self._links = links
        self._timeout = timeout
        self._watch = watch
        self._tag = Tag("barrier", 0)
        for link in links.values():
            link.setblocking(False)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def operate(self, tag: Tag) -> None:
        """Say which operation the next messages belong to."""
        self._tag = tag

    def exchange(
        self,
        sends: Sequence[tuple[int, np.ndarray[Any, Any]]],
        receives: Sequence[tuple[int, np.ndarray[Any, Any]]],
        function: Any = None,
    ) -> None:
        """Send arrays to ranks and receive arrays from ranks, all at the same time; return when all is done.

        function: joins what is received with what is in the array, instead of replacing it.
        Raises RankDiedError, RankTimeoutError or MismatchError, which name the rank.
        """
        outgoing = [Outgoing(rank, self._links[rank], self._tag, data) for rank, data in sends]
        incoming = [IncomingMessage(rank, self._links[rank], self._tag, into, function) for rank, into in receives]
        idle_since: float | None = None
        while True:
            moved = self._advance([*outgoing, *incoming])
            outgoing = [one for one in outgoing if not one.done]
            incoming = [one for one in incoming if not one.done]
            if not outgoing and not incoming:
                return
            if moved:
                idle_since = None
                continue
            idle_since = idle_since or time.monotonic()
            self._wait(outgoing, incoming, idle_since)

    def gone(self) -> list[int]:
        """Return the ranks whose connections are closed at the other end."""
        poll = select.poll()
        ranks = {link.fileno(): rank for rank, link in self._links.items()}
        for number in ranks:
            poll.register(number, _GONE)
        return sorted(ranks[number] for number, events in poll.poll(0) if events & _GONE)

    def close(self) -> None:
        """Close all connections."""
        for link in self._links.values():
            link.close()

    def _advance(self, messages: Sequence[Outgoing | IncomingMessage]) -> bool:
        moved = False
        for message in messages:
            try:
                moved |= message.advance()
            except (EOFError, OSError):
                raise self._died([message.peer]) from None
        return moved

    def _wait(self, outgoing: Sequence[Outgoing], incoming: Sequence[IncomingMessage], idle_since: float) -> None:
        """Wait until one of these can go on. Raises when one of the awaited is gone, or when it took too long."""
        poll = select.poll()
        wanted: dict[int, int] = {}
        for messages, event in ((outgoing, select.POLLOUT), (incoming, select.POLLIN)):
            for message in messages:
                number = message.link.fileno()
                wanted[number] = wanted.get(number, 0) | event
        for number, events in wanted.items():
            poll.register(number, events)
        left = idle_since + self._timeout - time.monotonic()
        if poll.poll(1000 * max(0.0, min(left, _LOOK_SECONDS))):
            return
        awaited = {message.peer for message in outgoing} | {message.peer for message in incoming}
        gone = self.gone()
        if awaited.intersection(gone) or (gone and time.monotonic() - idle_since > _DOUBT_SECONDS):
            raise self._died(gone)
        if left > 0:
            self._watch.waiting(str(self._tag.kind), awaited)
            return
        ranks = self._watch.to_blame(awaited)
        raise RankTimeoutError(
            f"{names_of(ranks)} of group {self.group!r} did not come to {self._tag.kind} within {self._timeout:g} s "
            f"(rank {self.rank} waited); destroy the group in all members and make it again, or give it a longer "
            "timeout",
            ranks,
        )

    def _died(self, ranks: Sequence[int]) -> RankDiedError:
        ranks = sorted({*ranks, *self.gone()})
        plural = "have" if len(ranks) > 1 else "has"
        return RankDiedError(
            f"{names_of(ranks)} of group {self.group!r} {plural} left or died while rank {self.rank} was in "
            f"{self._tag.kind}; destroy the group in all members and make it again with those that live",
            ranks,
        )


# -- making the connections ------------------------------------------------------------------------------------------


def listen(host: str, size: int) -> socket.socket:
    """Return a socket that others of the group can connect to, on an address of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, 0))
    except OSError as error:
        listener.close()
        raise GroupError(
            f"other members could not reach this process at {host}, the address of its node ({error}); members run on "
            "nodes of the cluster, not in a program outside of it"
        ) from error
    listener.listen(size + 8)
    return listener


def connect(
    group: str,
    rank: int,
    addresses: Sequence[tuple[str, int]],
    listener: socket.socket,
    secret: bytes,
    deadline: float,
) -> dict[int, socket.socket]:
    """Connect to all ranks below this one, let those above connect, and return a socket to each.

    Both sides prove that they know the `secret`; whoever does not is turned away. deadline: by `time.monotonic()`.
    """
    links: dict[int, socket.socket] = {}
    try:
        for peer in range(rank):
            links[peer] = _dial(group, rank, peer, addresses[peer], secret, deadline)
        while len(links) < len(addresses) - 1:
            link = _accept(group, rank, range(rank + 1, len(addresses)), links, listener, secret, deadline)
            if link is not None:
                links[link[0]] = link[1]
        for peer in range(rank):
            if not hmac.compare_digest(_read(links[peer], _PROOF_BYTES), _proof(secret, peer, rank)):
                raise GroupError(f"whoever answers as rank {peer} of group {group!r} is not a member of it")
    except BaseException as error:
        for link_made in links.values():
            link_made.close()
        if isinstance(error, EOFError):
            missing = [peer for peer in range(len(addresses)) if peer != rank and peer not in links]
            raise RankDiedError(f"a member of group {group!r} left while it was formed", missing) from None
        raise
    return links


def _dial(group: str, rank: int, peer: int, address: tuple[str, int], secret: bytes, deadline: float) -> socket.socket:
    left = max(0.1, deadline - time.monotonic())
    try:
        link = socket.create_connection(address, timeout=left)
        link.sendall(rank.to_bytes(4, "big") + _proof(secret, rank, peer))
    except OSError as error:
        raise RankDiedError(
            f"rank {peer} of group {group!r} can't be reached at {address[0]}:{address[1]} from rank {rank}: {error}",
            [peer],
        ) from error
    return link


def _accept(
    group: str,
    rank: int,
    expected: range,
    links: dict[int, socket.socket],
    listener: socket.socket,
    secret: bytes,
    deadline: float,
) -> tuple[int, socket.socket] | None:
    """Let one peer connect; return its rank and socket, or None when it was none of the group."""
    listener.settimeout(max(0.01, deadline - time.monotonic()))
    try:
        link, _ = listener.accept()
    except TimeoutError:
        missing = [peer for peer in expected if peer not in links]
        raise RankTimeoutError(
            f"{names_of(missing)} of group {group!r} did not connect to rank {rank} in time", missing
        ) from None
    try:
        link.settimeout(max(0.1, min(5.0, deadline - time.monotonic())))
        peer = int.from_bytes(_read(link, 4), "big")
        proof = _read(link, _PROOF_BYTES)
        if peer in expected and peer not in links and hmac.compare_digest(proof, _proof(secret, peer, rank)):
            link.sendall(_proof(secret, rank, peer))
            return peer, link
    except (OSError, EOFError):
        pass
    link.close()
    return None


def _proof(secret: bytes, sender: int, receiver: int) -> bytes:
    return hmac.digest(secret, b"kernel collective %d %d" % (sender, receiver), "sha256")


def _read(link: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = link.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data
