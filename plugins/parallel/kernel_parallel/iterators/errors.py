"""Errors of iterators.

KernelError
├── UsageError
│   └── IterationError     an iterator was used in a way that it can't be (also TypeError and ValueError)
└── FaultError
    └── ActorError
        └── ShardDiedError the worker actor of a shard is gone; the message names shard and iterator
"""

from __future__ import annotations

from kernel.exceptions import ActorError, UsageError


class IterationError(UsageError, TypeError, ValueError):
    """An iterator was used in a way that it can't be."""


class ShardDiedError(ActorError):
    """The worker actor of a shard is gone, and the items that it had not given yet with it."""

    def __init__(self, message: str, shard: str = "") -> None:
        super().__init__(message)
        self.shard = shard
        """The name of the shard, such as `from_range[10, shards=2].shard[1]`."""

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (str(self), self.shard)
