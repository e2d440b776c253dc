"""First in, first out: every trial runs to its end."""

from __future__ import annotations

from kernel_tune.schedulers.base import TrialScheduler


class FIFOScheduler(TrialScheduler):
    """Starts trials in the order in which they were made, and stops none. The default."""

    def debug_string(self) -> str:
        """Return the line for the status block."""
        return "Using FIFO scheduling algorithm."
