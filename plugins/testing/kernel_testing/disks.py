"""A disk that gets full: a file system of its own for a test, in memory and of a given size.

with SmallDisk(32 << 20) as disk, Cluster() as cluster:
    cluster.add_node(root=disk.path)
    disk.fill()
    ...
    disk.free()

This needs Linux and the right to mount (root); `why_not()` says what is missing.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import suppress
from types import TracebackType

from kernel_testing.faults import PATIENCE_SECONDS

_PIECE = b"x" * (64 << 10)


class SmallDisk:
    """A directory, `path`, on a disk of `size` bytes. A context manager; afterwards it is gone."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.path = ""

    @property
    def room(self) -> int:
        """How many bytes are free."""
        status = os.statvfs(self.path)
        return status.f_bavail * status.f_frsize

    def fill(self) -> None:
        """Leave no room at all."""
        with open(os.path.join(self.path, "ballast"), "ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(_PIECE)
        with open(os.path.join(self.path, "ballast"), "ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x")

    def free(self) -> None:
        """Make the room again that `fill` has taken."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self.path, "ballast"))

    def __enter__(self) -> SmallDisk:
        self.path = tempfile.mkdtemp(prefix="kt-", dir="/tmp")
        try:
            _run("mount", "-t", "tmpfs", "-o", f"size={self.size},mode=700", "kernel-testing", self.path)
        except BaseException:
            os.rmdir(self.path)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _run("umount", "--lazy", self.path)
        os.rmdir(self.path)


def why_not() -> str:
    """Return why this machine can't have such a disk, or nothing where it can."""
    try:
        with SmallDisk(1 << 20):
            return ""
    except FileNotFoundError:
        return "the program `mount` is not there"
    except subprocess.SubprocessError as error:
        said = getattr(error, "stderr", "") or str(error)
        return f"nothing can be mounted, which needs root: {' '.join(said.split())}"


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
