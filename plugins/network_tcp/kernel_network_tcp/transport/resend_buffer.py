"""Frames that one side of a connection has sent and received: enough to resume after a cut without loss or repetition.

A state machine without sockets. Both sides count the frames that they receive, and keep those that they have sent
until the other side acknowledges them.
"""

from __future__ import annotations

from collections import deque

from kernel_spec.errors import ProtocolError

MOST_KEPT_BYTES = 64 << 20
"""Maximum number of unacknowledged bytes; nothing more is sent until some are acknowledged."""
ACKNOWLEDGE_BYTES = 64 << 10
ACKNOWLEDGE_FRAMES = 64
"""Received frames are acknowledged after this many bytes or frames, whichever comes first."""


class ResendBuffer:
    """Counts and keeps frames. The caller must not run `keep` and `acknowledged` at the same time."""

    __slots__ = ("_unacknowledged_bytes", "_unacknowledged_frames", "kept", "kept_bytes", "received", "sent")

    def __init__(self) -> None:
        self.sent = 0
        """The number of frames ever sent."""
        self.received = 0
        """The number of frames ever received."""
        self.kept: deque[bytes] = deque()
        """Frames that were sent and are not acknowledged, the oldest first."""
        self.kept_bytes = 0
        self._unacknowledged_frames = 0
        self._unacknowledged_bytes = 0

    @property
    def full(self) -> bool:
        """Whether nothing more should be sent until something is acknowledged."""
        return self.kept_bytes >= MOST_KEPT_BYTES

    def keep(self, frame: bytes) -> None:
        """Note that a frame is sent."""
        self.sent += 1
        self.kept.append(frame)
        self.kept_bytes += len(frame)

    def acknowledged(self, received: int) -> None:
        """Note that the other side has received `received` frames. Raises ProtocolError when that is impossible."""
        acknowledged_before = self.sent - len(self.kept)
        if not acknowledged_before <= received <= self.sent:
            raise ProtocolError(
                f"the peer says that it received {received} frames, which should be from {acknowledged_before} to "
                f"{self.sent}"
            )
        for _ in range(received - acknowledged_before):
            self.kept_bytes -= len(self.kept.popleft())

    def note_received(self, size: int) -> None:
        """Note that a whole frame of `size` bytes has arrived."""
        self.received += 1
        self._unacknowledged_frames += 1
        self._unacknowledged_bytes += size

    @property
    def due(self) -> bool:
        """Whether it is time to acknowledge received frames."""
        return self._unacknowledged_frames >= ACKNOWLEDGE_FRAMES or self._unacknowledged_bytes >= ACKNOWLEDGE_BYTES

    def acknowledge(self) -> int:
        """Return the number of received frames, which is sent to the other side now."""
        self._unacknowledged_frames = self._unacknowledged_bytes = 0
        return self.received

    def validate(self) -> None:
        """Raise AssertionError when an invariant is broken."""
        assert 0 <= len(self.kept) <= self.sent
        assert self.kept_bytes == sum(map(len, self.kept))
        assert 0 <= self._unacknowledged_frames <= self.received
