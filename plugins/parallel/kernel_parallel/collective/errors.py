"""Errors of groups.

KernelError
├── UsageError
│   └── GroupError              a group is used in a way that it can't be (also ValueError)
│       └── MismatchError       members disagree about what to do next
└── FaultError
    └── CollectiveError         an operation failed because of a member; `ranks` says which
        ├── RankDiedError       a member is gone
        └── RankTimeoutError    a member did not come in time (also TimeoutError)
"""

from __future__ import annotations

from collections.abc import Sequence

from kernel.exceptions import FaultError, UsageError


class GroupError(UsageError, ValueError):
    """A group is used in a way that it can't be."""


class MismatchError(GroupError):
    """Members of a group disagree about what to do next: another operation, or another size or type of array."""


class CollectiveError(FaultError):
    """An operation failed because of a member."""

    def __init__(self, message: str, ranks: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.ranks = tuple(ranks)
        """The ranks to blame."""

    def __reduce__(self) -> tuple[type, tuple[str, tuple[int, ...]]]:
        return type(self), (str(self), self.ranks)


class RankDiedError(CollectiveError):
    """A member of the group is gone."""


class RankTimeoutError(CollectiveError, TimeoutError):
    """A member of the group did not come in time."""


def names_of(ranks: Sequence[int]) -> str:
    """Return ranks in words: `rank 2`, `ranks 1 and 2`."""
    words = [str(rank) for rank in sorted(ranks)]
    if len(words) == 1:
        return f"rank {words[0]}"
    return f"ranks {', '.join(words[:-1])} and {words[-1]}"
