"""The interface of connections that outlive their sockets, as those of a network may."""

from __future__ import annotations

from collections.abc import Callable


class Resumption:
    """Settings of a connection for the time after a cut. They do nothing for one that ends with its socket.

    A connection that outlives its socket is cut when that breaks: messages wait, and both sides try to resume. It is
    lost when they have failed for a while. This is shorter if the peer seems to have ended, because it closed its
    socket in good order, or because nothing listens at its place.
    """

    __slots__ = ()

    incoming = False
    """Whether a peer on another machine opened the connection."""

    def when_cut(self, function: Callable[[], None]) -> None:
        """Have `function` called whenever it is cut."""

    def wait_if_ended(self, seconds: float) -> None:
        """Give up `seconds` after a cut if the peer seems to have ended."""

    def wait_at_least(self, seconds: float) -> None:
        """Give up no earlier than `seconds` after a cut."""

    def wait_even_if_ended(self, seconds: float) -> None:
        """Give up no earlier than `seconds` after a cut, even if the peer seems to have ended.

        For a peer that is reached through other processes: those may end a connection, and be started again.
        """

    def end_with(self, place: str) -> None:
        """While the connection is cut, find out whether `place` still listens: if not, the peer has ended."""

    def doubt(self, reason: str) -> None:
        """Resume over another socket, because the peer is silent on this one."""
