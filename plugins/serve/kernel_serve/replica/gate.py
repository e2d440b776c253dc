"""Admission: whether a replica takes one more request."""

from __future__ import annotations


class AdmissionGate:
    """Counts the requests of a replica. While it drains, it admits none."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.ongoing = 0
        self.served = 0
        self.draining = False

    @property
    def full(self) -> bool:
        """Whether it has as many requests as it may have."""
        return self.ongoing >= self.limit

    def enter(self) -> str:
        """Count a request in; return "", or the reason for which it is refused."""
        if self.draining:
            return "draining"
        if self.full:
            return "busy"
        self.ongoing += 1
        return ""

    def leave(self) -> bool:
        """Count a request out; return whether the replica was full before."""
        was_full = self.full
        self.ongoing -= 1
        self.served += 1
        return was_full
