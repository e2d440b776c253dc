"""Raise the limit of file descriptors of a process, where the system allows it."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import suppress

ENOUGH = 1 << 16
"""More are not asked for: some programs, which inherit the limit, close every descriptor there might be."""
_A_WORKER = 3
"""Two pipes for its output, and a connection."""
_RESERVE = 32
"""Kept free for drivers, commands, and files."""


def raise_limit() -> None:
    """Let this process, and what it starts, have as many descriptors as it may ask for, up to ENOUGH."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def check_room(taken: int) -> None:
    """Raise OSError when a process that has `taken` descriptors can't serve one more worker."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and taken + _A_WORKER + _RESERVE > limit:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def describe_shortage(error: OSError) -> str:
    """Say that a worker could not be started, and what would help."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        f"its output and its connection need file descriptors ({error.strerror}: the node agent may have {limit}); "
        "start the session where `ulimit -n` allows more"
    )
