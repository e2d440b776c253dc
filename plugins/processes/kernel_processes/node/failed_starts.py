"""Decide when to stop replacing processes that fail to start."""

from __future__ import annotations

from kernel_spec.dataclass import dataclass

FAILED_STARTS = 3
"""Number of consecutive processes that end by themselves before they are up, after which no more are started."""
KILLED_STARTS_SECONDS = 60.0
"""Seconds for which processes that are killed before they are up are replaced, however many there are."""


@dataclass(slots=True)
class FailedStarts:
    """Counts the processes of one `kind` that did not come up, since the last one that did.

    `broken` is the number that ended by themselves. For those that were killed, the time since the first one counts,
    because the next one may come up.
    """

    kind: str
    broken: int = 0
    first_killed_at: float | None = None
    killed_seconds: float = 0.0

    def add(self, killed_at: float | None) -> None:
        """Count one more failed start."""
        if killed_at is None:
            self.broken += 1
            return
        if self.first_killed_at is None:
            self.first_killed_at = killed_at
        self.killed_seconds = killed_at - self.first_killed_at

    @property
    def enough(self) -> bool:
        """Whether to give up."""
        return self.broken >= FAILED_STARTS or self.killed_seconds >= KILLED_STARTS_SECONDS

    def __str__(self) -> str:
        """Describe the failures, for the error of requests that wait for such a process."""
        if self.broken >= FAILED_STARTS:
            return f"{FAILED_STARTS} {self.kind}s in a row did not come up"
        return f"every {self.kind} of the last {self.killed_seconds:.0f} s was killed before it was up"
