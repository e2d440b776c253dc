"""The error of a failed trial: a `TrialError` that is also of the type that its trainable raised."""

from __future__ import annotations

import contextlib
import os

from kernel_runs.errors import TrialError
from kernel_runs.raised import ERROR_FILE, RAISED_FILE, carried, rebuilt
from kernel_tune.trial import Status, Trial

__all__ = ["ERROR_FILE", "RAISED_FILE", "carried", "error_of", "rebuilt"]  # pickled errors name `rebuilt` here


def error_of(trial: Trial) -> TrialError | None:
    """Return the error of a failed trial, of the user's type if that could be pickled; None for other trials."""
    if trial.status is not Status.ERROR:
        return None
    message = trial.error_message
    if not message and trial.error_file and os.path.exists(trial.error_file):
        with open(trial.error_file, encoding="utf-8", errors="replace") as file:
            message = file.read().strip()
    data = trial.raised
    if not data and not trial.error_message:  # the trial was read from its directory
        with contextlib.suppress(OSError), open(os.path.join(trial.logdir, RAISED_FILE), "rb") as pickled:
            data = pickled.read()
    return rebuilt(message or f"{trial} failed", data)
