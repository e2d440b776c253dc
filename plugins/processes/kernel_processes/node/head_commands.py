"""Commands and questions of the head to a node, and which part of the agent handles each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel.logs import Logger
from kernel_engine.messages.named_messages import Kind, Message, number_of, packed
from kernel_processes.node.to_head import ToHead
from kernel_processes.protocol import head_messages


class HeadCommands:
    """Hands each message of the head to the part that has entered itself for it. Runs in the agent's loop.

    The parts fill `words` (also by `on`) for messages, and `methods` for questions to the node: a method is called with
    `then`, which takes the answer, and what was asked for.
    """

    def __init__(self, to_head: ToHead, log: Logger) -> None:
        self._to_head = to_head
        self._log = log
        self.words: dict[int, Callable[..., object]] = {}
        self.methods: dict[str, Callable[..., object]] = {}
        self.on(head_messages.AskNode, self._ask)

    def on(self, kind: type[Kind], handler: Callable[[Kind], object]) -> None:
        """Have `handler(message)` called for each message of this kind."""
        self.words[number_of(kind)] = lambda *fields: handler(kind(*fields))

    def handle(self, message: Message) -> None:
        """Handle a message of the head. An error in a part is logged."""
        try:
            self.words[message[0]](*message[1:])
        except Exception:
            self._log.exception("a message of the head could not be handled", word=message[0])

    def _ask(self, said: head_messages.AskNode) -> None:
        self.methods[said.method](lambda value: self._answer(said.number, value), *said.arguments)

    def _answer(self, number: int, value: Any) -> None:
        self._to_head.send(packed(head_messages.AskAnswered(number=number, value=value)))
