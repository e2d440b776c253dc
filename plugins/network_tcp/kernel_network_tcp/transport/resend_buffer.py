"""Frames that one side of a connection has sent and received: enough to resume after a cut without loss or repetition.

A state machine without sockets. Both sides count the frames that they receive, and keep those that they have sent
until the other side acknowledges them.
"""

from __future__ import annotations

from collections import deque

from kernel_spec.errors import ProtocolError

MOST_KEPT_BYTES = 64 << 20
"""Bytes without acknowledgement from which on nothing more is sent."""
ACKNOWLEDGE_BYTES = 64 << 10
ACKNOWLEDGE_FRAMES = 64
"""Received frames are acknowledged after this many bytes or frames, whichever comes first."""


class ResendBuffer:
    """Count and keep frames. The caller must not run `keep` and `acknowledged` at the same time."""

    __slots__ = ("_unsaid_bytes", "_unsaid_frames", "heard", "kept", "kept_bytes", "sent")

    def __init__(self) -> None:
        self.sent = 0
        """The number of frames ever sent."""
        self.heard = 0
        """The number of frames ever received."""
        self.kept: deque[bytes] = deque()
        """Frames that were sent and are not acknowledged, the oldest first."""
        self.kept_bytes = 0
        self._unsaid_frames = 0
        self._unsaid_bytes = 0

    @property
    def full(self) -> bool:
        """Whether nothing more should be sent until something is acknowledged."""
        return self.kept_bytes >= MOST_KEPT_BYTES

    def keep(self, frame: bytes) -> None:
        """Note that a frame is sent."""
        self.sent += 1
        self.kept.append(frame)
        self.kept_bytes += len(frame)

    def acknowledged(self, heard: int) -> None:
        """Note that the other side has received `heard` frames. Raises ProtocolError when that is impossible."""
        acknowledged_before = self.sent - len(self.kept)
        if not acknowledged_before <= heard <= self.sent:
            raise ProtocolError(
                f"the peer says that it heard {heard} frames, which should be from {acknowledged_before} to {self.sent}"
            )
        for _ in range(heard - acknowledged_before):
            self.kept_bytes -= len(self.kept.popleft())

    def hear(self, size: int) -> None:
        """Note that a whole frame of `size` bytes has arrived."""
        self.heard += 1
        self._unsaid_frames += 1
        self._unsaid_bytes += size

    @property
    def due(self) -> bool:
        """Whether it is time to acknowledge received frames."""
        return self._unsaid_frames >= ACKNOWLEDGE_FRAMES or self._unsaid_bytes >= ACKNOWLEDGE_BYTES

    def say(self) -> int:
        """Return the number of received frames, which is sent to the other side now."""
        self._unsaid_frames = self._unsaid_bytes = 0
        return self.heard

    def validate(self) -> None:
        """Raise AssertionError when something is not as it must always be."""
        assert 0 <= len(self.kept) <= self.sent
        assert self.kept_bytes == sum(map(len, self.kept))
        assert 0 <= self._unsaid_frames <= self.heard
