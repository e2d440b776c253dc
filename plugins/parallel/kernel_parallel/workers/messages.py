"""Messages to workers that were not answered yet, and which of them hold up others for too long.

What is quick travels together, or behind something else. Should one of those calls turn out to wait for another that
stands behind it, that other one is asked back and given to somebody else: nothing waits for its own neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable

from kernel_parallel.workers.jobs import Chunk
from kernel_parallel.workers.schedule import ScheduledWorker
from kernel_spec.dataclass import dataclass

PATIENCE_SECONDS = 0.05
"""Seconds without an answer after which chunks that were expected to be quick are asked back."""


@dataclass(slots=True, eq=False)
class Message:
    """Chunks that a worker was sent; or, if `asks_back`, the question which chunks of that message have begun."""

    worker: ScheduledWorker
    chunks: list[Chunk]
    number: int
    sent_at: float
    holds_up: bool
    """Whether a chunk in it can stand behind another: it has several, or was sent to a worker that had one."""
    asks_back: Message | None = None
    answered: bool = False


def seconds_to_overdue(messages: Iterable[Message], now: float) -> float | None:
    """Return in how many seconds the next message is overdue; None if none can be."""
    left = [message.sent_at + PATIENCE_SECONDS - now for message in messages if message.holds_up]
    return max(0.0, min(left)) if left else None


def overdue(messages: Iterable[Message], now: float) -> list[Message]:
    """Return the messages from which chunks are to be asked back now."""
    return [message for message in messages if message.holds_up and message.sent_at + PATIENCE_SECONDS <= now]
