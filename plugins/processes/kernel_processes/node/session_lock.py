"""The lock that shows that a session's agent lives. The system releases it when the agent ends, however that happens.

It is a lock of the session's directory (flock). The process that starts the agent takes it before the session can be
found, and the agent inherits it, so that it is held at every moment of the session's life. Children that either forks
release it at once, or the lock would outlive the agent. On network file systems it is valid on its own host only.
`systemd-tmpfiles` removes nothing from a directory that is locked.
"""

from __future__ import annotations

import fcntl
import os

_held: dict[str, int] = {}
"""The descriptor of each lock that this process holds, by directory."""


def hold(directory: str) -> bool:
    """Lock the directory of a new session, and return whether that was possible: some file systems have no locks."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    _held[directory] = descriptor
    return True


def inherit(directory: str, descriptor: int) -> None:
    """Hold the lock that the process that started this one held as `descriptor`."""
    os.set_inheritable(descriptor, False)
    _held[directory] = descriptor


def held_descriptor(directory: str) -> int | None:
    """Return the descriptor to inherit for whom is to hold the lock of a directory, None if this process does not."""
    return _held.get(directory)


def let_go(directory: str) -> None:
    """Hold the lock no longer; a process that has inherited it goes on."""
    descriptor = _held.pop(directory, None)
    if descriptor is not None:
        os.close(descriptor)


def is_held(directory: str) -> bool:
    """Return whether a process of this host holds the lock; if that is unknown, it counts as held."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # Shared: two tests do not disturb each other.
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _let_go_in_child() -> None:
    for directory in list(_held):
        let_go(directory)


os.register_at_fork(after_in_child=_let_go_in_child)
