"""Directories for the sessions of tests."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def temporary_root() -> Iterator[str]:
    """Make a directory for sessions whose path is short enough for sockets; remove it afterwards."""
    root = tempfile.mkdtemp(prefix="kt-", dir="/tmp" if os.path.isdir("/tmp") else None)
    os.mkdir(os.path.join(root, f"kernel-{os.getuid()}"), 0o700)  # where sessions are; it stays when they go
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)
