"""What one side of a connection has sent and heard: enough to go on after a cut, with nothing lost and nothing doubled.

A state machine without sockets. Both sides count the frames that they have heard, and keep those that they have sent
until the other has said that it heard them.
"""

from __future__ import annotations

from collections import deque

from kernel_spec.errors import ProtocolError

MOST_KEPT_BYTES = 64 << 20
"""When so much is not acknowledged, nothing more is sent."""
ACKNOWLEDGE_BYTES = 64 << 10
ACKNOWLEDGE_FRAMES = 64
"""What was heard is acknowledged after so many bytes or frames, whichever comes first."""


class ResendBuffer:
    """Counts and keeps frames. `keep` and `acknowledged` exclude each other, which the caller sees to."""

    __slots__ = ("_unsaid_bytes", "_unsaid_frames", "heard", "kept", "kept_bytes", "sent")

    def __init__(self) -> None:
        self.sent = 0
        """How many frames were ever sent."""
        self.heard = 0
        """How many frames were ever heard."""
        self.kept: deque[bytes] = deque()
        """What was sent and is not acknowledged, the oldest first."""
        self.kept_bytes = 0
        self._unsaid_frames = 0
        self._unsaid_bytes = 0

    @property
    def full(self) -> bool:
        """Whether nothing more should be sent until something is acknowledged."""
        return self.kept_bytes >= MOST_KEPT_BYTES

    def keep(self, frame: bytes) -> None:
        """A frame is sent."""
        self.sent += 1
        self.kept.append(frame)
        self.kept_bytes += len(frame)

    def acknowledged(self, heard: int) -> None:
        """The other side has heard `heard` frames. Raises ProtocolError when that can't be."""
        acknowledged_before = self.sent - len(self.kept)
        if not acknowledged_before <= heard <= self.sent:
            raise ProtocolError(
                f"the peer says that it heard {heard} frames, which should be from {acknowledged_before} to {self.sent}"
            )
        for _ in range(heard - acknowledged_before):
            self.kept_bytes -= len(self.kept.popleft())

    def hear(self, size: int) -> None:
        """A whole frame of `size` bytes has come."""
        self.heard += 1
        self._unsaid_frames += 1
        self._unsaid_bytes += size

    @property
    def due(self) -> bool:
        """Whether it is time to tell the other side how much was heard."""
        return self._unsaid_frames >= ACKNOWLEDGE_FRAMES or self._unsaid_bytes >= ACKNOWLEDGE_BYTES

    def say(self) -> int:
        """Return how many frames were heard, which the other side is told now."""
        self._unsaid_frames = self._unsaid_bytes = 0
        return self.heard

    def validate(self) -> None:
        """Raise AssertionError when something is not as it must always be."""
        assert 0 <= len(self.kept) <= self.sent
        assert self.kept_bytes == sum(map(len, self.kept))
        assert 0 <= self._unsaid_frames <= self.heard
