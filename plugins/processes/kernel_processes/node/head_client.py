"""Let the parts of a node send messages to the head, and handle messages from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel.logs import Logger
from kernel_engine.messages.named_messages import Kind, Message, number_of, packed
from kernel_processes.protocol import head_messages


class HeadClient:
    """Sends messages to the head, and dispatches the head's messages to the parts. Runs in the agent's loop.

    The parts fill `handlers` (also by `on`) for messages, and `methods` for questions to the node: a method is called
    with `then`, which takes the answer, and the arguments of the question.
    """

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._early: list[Message] = []
        self._send: Callable[[Message], None] = self._early.append
        self.linked = False
        """Whether there is a link to the head."""
        self.handlers: dict[int, Callable[..., object]] = {}
        self.methods: dict[str, Callable[..., object]] = {}
        self.on(head_messages.AskNode, self._ask)

    def link(self, send: Callable[[Message], None]) -> None:
        """Send messages by `send` from now on, beginning with those that were queued before there was a link."""
        self._send, self.linked = send, True
        for message in self._early:
            send(message)
        self._early.clear()

    def send(self, message: Message) -> None:
        """Queue a message to the head."""
        self._send(message)

    def on(self, kind: type[Kind], handler: Callable[[Kind], object]) -> None:
        """Have `handler(message)` called for each message of this kind."""
        self.handlers[number_of(kind)] = lambda *fields: handler(kind(*fields))

    def handle(self, message: Message) -> None:
        """Handle a message of the head. An error in a part is logged."""
        try:
            self.handlers[message[0]](*message[1:])
        except Exception:
            self._log.exception("a message of the head could not be handled", word=message[0])

    def _ask(self, said: head_messages.AskNode) -> None:
        self.methods[said.method](lambda value: self._answer(said.number, value), *said.arguments)

    def _answer(self, number: int, value: Any) -> None:
        self.send(packed(head_messages.AskAnswered(number=number, value=value)))
