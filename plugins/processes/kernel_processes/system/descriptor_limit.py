"""Raise the limit of file descriptors of a process, where the system allows it."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import suppress

ENOUGH = 1 << 16
"""The highest limit that is requested. Programs inherit it, and some close every descriptor up to the limit."""
_A_WORKER = 3
"""Descriptors that a worker needs in the agent: two pipes for its output, and a connection."""
_RESERVE = 32
"""Descriptors that are kept free for drivers, commands and files."""


def raise_limit() -> None:
    """Raise the soft limit of this process and its children to the hard limit, but to no more than ENOUGH."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # Some systems allow less than they report.
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def check_room(taken: int) -> None:
    """Raise OSError (EMFILE) when a process that has `taken` descriptors open can't serve one more worker."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and taken + _A_WORKER + _RESERVE > limit:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def describe_shortage(error: OSError) -> str:
    """Return a message that says why a worker could not be started, and what would help."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        f"its output and its connection need file descriptors ({error.strerror}: the node agent may have {limit}); "
        "start the session where `ulimit -n` allows more"
    )
