"""Locks, semaphores, counters, barriers and events that tasks, actors and programs know by name.

One actor for each namespace keeps them all; it lives until the session ends.
"""

from kernel_parallel.coordination.errors import BrokenBarrierError, CoordinationError, LeaseLostError
from kernel_parallel.coordination.locks import Lock, Semaphore
from kernel_parallel.coordination.shared import Barrier, Counter, Event

__all__ = [
    "Barrier",
    "BrokenBarrierError",
    "CoordinationError",
    "Counter",
    "Event",
    "LeaseLostError",
    "Lock",
    "Semaphore",
]
