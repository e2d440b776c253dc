"""Messages between the agent of a remote driver and the relay."""

from __future__ import annotations

from kernel_engine.messages.message_fields import MessageFields
from kernel_engine.messages.named_messages import numbered


@numbered(1, "agent -> relay")
class RelayJoined(MessageFields):
    """A remote driver is at this end, as the first message. It is called back by its id, `client` (hexadecimal)."""

    client: str


@numbered(2, "relay -> agent")
class RelayedPlace(MessageFields):
    """The answer: `place` is where the whole cluster reaches the client by way of the relay."""

    place: str


@numbered(3, "relay -> agent")
class DialBack(MessageFields):
    """A caller wants the client: dial the relay's gateway with this ticket."""

    ticket: bytes
