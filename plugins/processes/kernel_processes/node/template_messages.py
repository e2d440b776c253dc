"""Messages between the agent of a node and its template.

Messages of the agent may be of any size, because the text itself is passed in anonymous memory, as a descriptor.
"""

from __future__ import annotations

import marshal
import os
import socket
from typing import Any

from kernel_engine.messages.message_fields import MessageFields
from kernel_engine.messages.named_messages import numbered

_MARK = b"."
_MAXIMUM_DESCRIPTORS = 8
TO_TEMPLATE = "agent -> template"
TO_AGENT = "template -> agent"


@numbered(1, TO_TEMPLATE)
class LoadSession(MessageFields):
    """Load what all workers share: the pickled catalog of plugins and settings of the session."""

    session: bytes


@numbered(2, TO_TEMPLATE)
class ForkWorker(MessageFields):
    """Fork a worker with these settings. The message has descriptors: the pipes for the worker's output."""

    worker: dict[str, Any]


@numbered(3, TO_AGENT)
class WorkerForked(MessageFields):
    """The worker is there."""

    worker: bytes
    pid: int


@numbered(4, TO_AGENT)
class ForkFailed(MessageFields):
    """The worker could not be forked, for a reason."""

    worker: bytes
    reason: str


@numbered(5, TO_AGENT)
class WorkerExited(MessageFields):
    """A worker has ended. `status` is its exit status as `os.waitpid` returns it."""

    pid: int
    status: int


def send_message(link: socket.socket, message: tuple[Any, ...], descriptors: list[int]) -> None:
    """Send a message of plain values, and descriptors with it. Raises OSError when that is impossible."""
    with open(os.memfd_create("kernel-message"), "wb", buffering=0) as text:
        rest = memoryview(marshal.dumps(message))
        while rest:
            rest = rest[text.write(rest) :]
        socket.send_fds(link, [_MARK], [text.fileno(), *descriptors])


def receive_message(link: socket.socket) -> tuple[tuple[Any, ...], list[int]] | None:
    """Return the next message and its descriptors, None when the other side is gone. Blocks until then."""
    try:
        mark, descriptors, _, _ = socket.recv_fds(link, len(_MARK), _MAXIMUM_DESCRIPTORS)
    except ConnectionError:
        return None
    if not mark:
        return None
    with open(descriptors.pop(0), "rb") as text:
        text.seek(0)  # The reader shares the sender's position, which is at the end.
        return marshal.load(text), descriptors
