"""Decide about the lanes of runners that died: whether another runner may take them over, and for how long.

There are three modes:

- `"ignore"`: the others go on, with fewer lanes.
- `"recreate"`: a new runner takes the lanes over, with new environments, and samples what is missing.
- `"exact"`: a new runner begins where the lost one began its last sample, and makes that again, bit for bit.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal, TypeAlias

from kernel_rllib.errors import RunnersLostError
from kernel_spec.errors import FaultError, TaskError

Recovery: TypeAlias = Literal["ignore", "recreate", "exact"]

_log = logging.getLogger("kernel.rllib")


class Losses:
    """Counts the runners that died, and says of each whether another one is to take its place."""

    def __init__(self, recovery: Recovery | None, in_a_row: int, in_all: int) -> None:
        """Begin to count.

        Args:
            recovery: The mode; None: each death is an error.
            in_a_row: The number of deaths that are tolerated without a sample between them.
            in_all: The number of runners that may be replaced in all.
        """
        self._recovery = recovery
        self._most_in_a_row, self._most_in_all = in_a_row, in_all
        self._in_a_row = 0
        self.replaced = 0
        """The number of runners that were replaced."""
        self.has_sampled = False
        """Whether any runner has brought a sample yet."""

    def forget(self) -> None:
        """Count deaths in a row from 0 again: a runner has brought a sample."""
        self._in_a_row = 0

    def may_replace(self, index: int, lanes: Sequence[int], error: FaultError, *, others: int) -> bool:
        """Count a runner that died, and return whether another one is to take its place.

        Args:
            index: Its number.
            lanes: The numbers of its lanes.
            error: The error by which its death was noticed.
            others: The number of runners that are left.

        Raises:
            RunnersLostError: If the mode says that a death is an error, no runner is left, or too many died.
            TaskError: If its constructor raised, and no runner has shown that it can work: another would raise as well.
        """
        if isinstance(error, TaskError) and not self.has_sampled:
            raise error
        self._in_a_row += 1
        _log.warning("runner %d, with the lanes %s, died: %s", index, list(lanes), error)
        if self._recovery is None:
            raise RunnersLostError(_lost(index, error)) from error
        if self._in_a_row > self._most_in_a_row:
            raise RunnersLostError(_too_many(self._in_a_row, error)) from error
        if self._recovery == "ignore":
            if not others:
                raise RunnersLostError(_none_left(error)) from error
            return False
        self.replaced += 1
        if self.replaced > self._most_in_all:
            raise RunnersLostError(_too_many_in_all(self._most_in_all, error)) from error
        return True


def _lost(index: int, error: FaultError) -> str:
    return (
        f"runner {index} died: {error}. With `.fault_tolerance(recovery='recreate')` another takes its place, with "
        "`recovery='ignore'` the others go on."
    )


def _too_many(failures: int, error: FaultError) -> str:
    return (
        f"{failures} runners died one after another, without a sample between them; the last one said: {error}. "
        "Look at what their environments do when they start, or tolerate more with "
        "`.fault_tolerance(num_consecutive_env_runner_failures_tolerance=...)`."
    )


def _too_many_in_all(most: int, error: FaultError) -> str:
    return (
        f"{most} runners were replaced, and another one died: {error}. Look at what their environments do, or allow "
        "more with `.fault_tolerance(max_num_env_runner_restarts=...)`."
    )


def _none_left(error: FaultError) -> str:
    return (
        f"all runners died; the last one said: {error}. With `.fault_tolerance(recovery='recreate')` others take their "
        "places."
    )
