"""The log of an experiment: all events in their order, so that they can be repeated.

A record is its length and checksum (CRC-32), and then bytes made by cloudpickle. Records are only added. An incomplete
record, from a kill, ends the log, and is removed when the log is opened again.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import pickle
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import cloudpickle

from kernel_tune.errors import TuneError

_log = logging.getLogger("kernel.tune")

_HEADER = struct.Struct("<II")


class EventLog:
    """Writes a log file, which one run at a time has open. Raises TuneError while another run has it open."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by `close`
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise TuneError(
                f"the experiment in {os.path.dirname(path)} is being run already, by this program or another one: "
                "give this one another name, or wait until that one has ended"
            ) from None
        except OSError:  # a file system without locks
            _log.debug("%s can't be locked", path)
        self.size = self._file.tell()

    def add(self, record: Any) -> None:
        """Add a record. The operating system has it at once: only a crash of the machine could lose it.

        Raises TuneError, and leaves the log as it was, if the disk is full.
        """
        data = dump(record)
        left = memoryview(_HEADER.pack(len(data), zlib.crc32(data)) + data)
        try:
            while left:
                left = left[self._file.write(left) or 0 :]
        except OSError as error:
            self.cut(self.size)
            raise TuneError(
                f"can't write {self.path}: {error.strerror or error}. The state of the experiment before that is "
                "saved: correct the cause, then resume with resume='AUTO' or Tuner.restore"
            ) from error
        self.size += _HEADER.size + len(data)

    def cut(self, size: int) -> None:
        """Truncate the log to `size` bytes."""
        with contextlib.suppress(OSError):  # an incomplete record is also removed when the log is read
            self._file.truncate(size)
        self.size = size

    def sync(self) -> None:
        """Flush the log to disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush the log to disk, and release it for other runs."""
        try:
            self.sync()
        finally:
            self._file.close()


def read(path: str, offset: int = 0) -> Iterator[tuple[int, Any]]:
    """Yield each whole record of a log from `offset` on, with the position after it."""
    with open(path, "rb") as file:
        file.seek(offset)
        while True:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return
            length, checksum = _HEADER.unpack(header)
            data = file.read(length)
            if len(data) < length or not length:
                return
            if zlib.crc32(data) != checksum:
                _log.warning(
                    "%s is damaged after %d bytes: what came in later is forgotten, and trials run again from there",
                    path, offset,
                )  # fmt: skip
                return
            offset += _HEADER.size + length
            yield offset, pickle.loads(data)


def dump(value: Any) -> bytes:
    """Return a value as bytes: by pickle if possible, which is faster, else by cloudpickle."""
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:  # cloudpickle also handles lambdas and classes of the main program
        return bytes(cloudpickle.dumps(value, protocol=5))
