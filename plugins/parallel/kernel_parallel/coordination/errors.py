"""Errors of locks and their like.

KernelError
├── UsageError
│   └── CoordinationError   one is used in a way that it can't be (also RuntimeError and ValueError, as in `threading`)
└── FaultError
    ├── LeaseLostError      what this process held was given to another
    └── BrokenBarrierError  a barrier was aborted, or somebody gave up (also threading.BrokenBarrierError)
"""

from __future__ import annotations

import threading

from kernel.exceptions import FaultError, UsageError


class CoordinationError(UsageError, RuntimeError, ValueError):
    """A lock, semaphore, counter, barrier or event is used in a way that it can't be."""


class LeaseLostError(FaultError):
    """What this process held was given to another, because its lease was not renewed in time."""


class BrokenBarrierError(FaultError, threading.BrokenBarrierError):
    """A barrier was aborted or reset, or one of those who waited gave up."""
