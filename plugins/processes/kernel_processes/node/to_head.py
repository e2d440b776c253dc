"""Send messages from the parts of a node to its head, also while there is no link yet."""

from __future__ import annotations

from collections.abc import Callable

from kernel_engine.messages.named_messages import Message


class ToHead:
    """Takes messages for the head. Those that come before there is a link to it are the first to go over that.

    `send(message)` is another function once there is a link, so it is not to be kept.
    """

    def __init__(self) -> None:
        self._early: list[Message] = []
        self.send: Callable[[Message], None] = self._early.append
        self.linked = False
        """Whether there is a link to the head."""

    def link(self, send: Callable[[Message], None]) -> None:
        """From now on messages go to `send`."""
        self.send, self.linked = send, True
        for message in self._early:
            send(message)
        self._early.clear()
