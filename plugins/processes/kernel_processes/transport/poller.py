"""Wait for file descriptors: by epoll where there is one, by the best selector elsewhere."""

from __future__ import annotations

import select
import selectors
from typing import Protocol

READ = 1
WRITE = 4


class Poller(Protocol):
    """Waits for ready descriptors. Registering from another thread than the polling one is allowed."""

    def register(self, fd: int, events: int) -> None:
        """Begin watching `fd` for READ, WRITE or both."""

    def modify(self, fd: int, events: int) -> None:
        """Change what `fd` is watched for."""

    def unregister(self, fd: int) -> None:
        """Stop watching `fd`; unknown ones are ignored."""

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        """Wait up to `timeout` seconds (negative: for ever) and return (fd, events) pairs."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when `poll` would return something."""

    def close(self) -> None:
        """Let go of the descriptor."""


class EpollPoller:
    """Waits on Linux, by epoll."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.poll = self._epoll.poll
        self.fileno = self._epoll.fileno
        self.close = self._epoll.close
        self.register = self._epoll.register
        self.modify = self._epoll.modify

    def unregister(self, fd: int) -> None:
        """Stop watching `fd`; unknown ones are ignored."""
        try:
            self._epoll.unregister(fd)
        except (OSError, ValueError):
            return


class SelectorPoller:
    """Waits on other systems, by the best selector (kqueue on macOS)."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, events: int) -> None:
        """Begin watching `fd`."""
        self._selector.register(fd, self._mask(events))

    def modify(self, fd: int, events: int) -> None:
        """Change what `fd` is watched for."""
        self._selector.modify(fd, self._mask(events))

    def unregister(self, fd: int) -> None:
        """Stop watching `fd`; unknown ones are ignored."""
        try:
            self._selector.unregister(fd)
        except (KeyError, ValueError, OSError):
            return

    def poll(self, timeout: float = -1) -> list[tuple[int, int]]:
        """Wait and return (fd, events) pairs."""
        ready = self._selector.select(None if timeout < 0 else timeout)
        return [(key.fd, (READ if mask & 1 else 0) | (WRITE if mask & 2 else 0)) for key, mask in ready]

    def fileno(self) -> int:
        """Return the selector's own descriptor."""
        return self._selector.fileno()  # type: ignore[attr-defined,no-any-return]

    def close(self) -> None:
        """Let go of the descriptor."""
        self._selector.close()

    @staticmethod
    def _mask(events: int) -> int:
        return (1 if events & READ else 0) | (2 if events & WRITE else 0)


def make_poller() -> Poller:
    """Return the quickest poller of this machine."""
    return EpollPoller() if hasattr(select, "epoll") else SelectorPoller()
