"""Count how often a version has failed in a row, and say when to try again."""

from __future__ import annotations

from kernel_spec.dataclass import dataclass

FIRST_DELAY = 1.0
"""Seconds before the third attempt. The second is made at once, and each later delay is twice the one before."""
LONGEST_DELAY = 30.0
SETTLED_SECONDS = 10.0
"""A replica that has run for so many seconds has started well; one that dies sooner counts as a failed start."""


@dataclass(slots=True)
class Attempts:
    """Failures of a version, in rounds.

    Replicas that start side by side belong to one round: if all fail, it counts once.
    """

    failed: int = 0
    not_before: float = 0.0
    message: str = ""

    @property
    def current(self) -> int:
        """The number of the round in which a replica starts now."""
        return self.failed + 1

    @property
    def in_a_row(self) -> str:
        """The number of failures in a row, in words."""
        return "once" if self.failed == 1 else f"{self.failed} times in a row"

    def fail(self, round: int, message: str, now: float) -> None:
        """Count the failure of a replica that was started in `round`. `message` is its error."""
        self.message = message
        if round > self.failed:
            self.failed = round
            self.not_before = now + _delay(round)

    def succeed(self, round: int) -> None:
        """Forget all failures if a replica that was started in `round` runs well, and nothing has failed since."""
        if round > self.failed:
            self.forget()

    def forget(self) -> None:
        """Forget all failures."""
        self.failed, self.not_before, self.message = 0, 0.0, ""


def _delay(failed: int) -> float:
    return 0.0 if failed < 2 else min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(failed - 2, 10))
