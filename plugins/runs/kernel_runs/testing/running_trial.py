"""Runs a training function in a test, without an experiment, and returns its reports.

with running_trial(tmp_path) as trial:
    train({"rate": 0.1})
assert [report["loss"] for report, checkpoint in trial.reports()] == [...]
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernel_runs import session
from kernel_runs.checkpoint import Checkpoint
from kernel_runs.place import Place
from kernel_runs.reports import TRAINING_ITERATION, Report
from kernel_runs.trainable.function_session import FunctionSession


class RunningTrial:
    """A trial whose function runs in this process. `stop` ends it as a scheduler would."""

    def __init__(self, directory: str, checkpoint: Checkpoint | None = None) -> None:
        count = itertools.count(1)
        place = Place("00000000", "train_00000000", "experiment", directory)
        self.session = FunctionSession(
            place, lambda metrics, _: {**metrics, TRAINING_ITERATION: next(count)}, checkpoint
        )

    def stop(self) -> None:
        """Make the next report raise StopIteration."""
        self.session.stop()

    def reports(self) -> list[tuple[Report, Checkpoint | None]]:
        """Return the reports since the last call, each with its checkpoint or None."""
        found = []
        while (report := self.session.take(0)) is not None:
            result, where = report
            found.append((result, None if where is None else Checkpoint(where)))
        return found


@contextmanager
def running_trial(directory: str | os.PathLike[str], checkpoint: Any = None) -> Iterator[RunningTrial]:
    """Run a trial in this thread during a `with` block. Files go to `directory`; it continues from `checkpoint`."""
    trial = RunningTrial(os.fspath(directory), checkpoint)
    session.enter(trial.session)
    try:
        yield trial
    finally:
        session.leave(trial.session)
