"""The messages in the pipes between a runner and the processes that step its lanes: mostly single bytes."""

from __future__ import annotations

import os
import pickle
import struct
import traceback
from typing import Any, NamedTuple

import cloudpickle

from kernel_rllib.errors import EnvError

QUIET = b"\0"
"""The lanes of a part have been stepped, and all there is to know is in shared memory."""
TOLD = b"\1"
"""The same, and a message follows: infos and faults."""
FAILED = b"\2"
"""An error follows instead."""
REQUEST = b"?"
"""A message follows: the name of a method, and its arguments."""
_LENGTH = struct.Struct("<Q")


class Hello(NamedTuple):
    """The first message to a process."""

    makers: list[list[Any]]
    """The makers of the environments of each part's lanes."""
    first_lanes: list[int]
    """The number of the first lane of each part."""
    settings: dict[str, Any]
    """Further arguments of the loop."""


class ProcessTraceback(Exception):
    """The traceback of an error in another process, as the cause of the error here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def step_command(part: int, turn: int) -> bytes:
    """Return the byte that asks for a step of a part, whose observations go into the places of this turn (0 or 1)."""
    return bytes([part << 1 | turn])


def parsed_step(command: bytes) -> tuple[int, int]:
    """Return the part and the turn of a command."""
    return command[0] >> 1, command[0] & 1


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however large."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def send(descriptor: int, kind: bytes, value: Any) -> None:
    """Write a byte and a message."""
    body = cloudpickle.dumps(value)
    write_all(descriptor, kind + _LENGTH.pack(len(body)) + body)


def send_error(descriptor: int, error: BaseException) -> None:
    """Write an error with where it was raised; one that can't be pickled as an EnvError with its words."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception:
        error = EnvError(f"{type(error).__name__}: {error}")
    send(descriptor, FAILED, (error, text))


def receive(descriptor: int) -> Any:
    """Read a message after its byte. Raises EOFError where the other end is gone."""
    (length,) = _LENGTH.unpack(read_exactly(descriptor, _LENGTH.size))
    return pickle.loads(read_exactly(descriptor, length))


def receive_error(descriptor: int) -> Exception:
    """Read an error after its byte."""
    error, text = receive(descriptor)
    error.__cause__ = ProcessTraceback(text)
    found: Exception = error
    return found


def read_exactly(descriptor: int, length: int) -> bytes:
    """Read as many bytes as asked for. Raises EOFError where the other end is gone before."""
    chunks = []
    while length:
        chunk = os.read(descriptor, min(length, 1 << 20))
        if not chunk:
            raise EOFError("the other end of a pipe is gone")
        chunks.append(chunk)
        length -= len(chunk)
    return b"".join(chunks)
