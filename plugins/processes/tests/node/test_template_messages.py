"""What the agent tells its template arrives, however large it is, with its descriptors."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from kernel.testing.leaks import count_descriptors
from kernel_engine.messages.named_messages import packed
from kernel_processes.node.template_messages import ForkWorker, receive_message, send_message


@pytest.fixture
def link() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a link as the agent makes it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("size", [0, 1, 300_000, 5_000_000])
def test_a_message_of_any_size_arrives_with_its_descriptors(
    link: tuple[socket.socket, socket.socket], size: int
) -> None:
    ours, theirs = link
    reader, writer = os.pipe()
    before = count_descriptors()
    message = packed(ForkWorker({"variables": {"LARGE": "x" * size}, "id": b"\0\xff"}))
    send_message(ours, message, [writer])
    received = receive_message(theirs)
    assert received is not None
    assert received[0] == message
    (copy,) = received[1]
    os.write(copy, b"here")
    assert os.read(reader, 4) == b"here"
    for descriptor in (reader, writer, copy):
        os.close(descriptor)
    assert count_descriptors() == before - 2


def test_messages_keep_their_order(link: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = link
    for number in range(50):
        send_message(ours, (7, number), [])
    assert [receive_message(theirs) for _ in range(50)] == [((7, number), []) for number in range(50)]


def test_the_end_of_the_other_side_is_told(link: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = link
    ours.close()
    assert receive_message(theirs) is None
    with pytest.raises(OSError):
        send_message(theirs, (7, b""), [])
