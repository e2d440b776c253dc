"""The errors of runs; each is also one of kernel's."""

from __future__ import annotations

from kernel_spec.errors import KernelError


class RunError(KernelError):
    """A run could not be made, or has failed: a trial, an experiment, a training. Tune calls it `TuneError`."""


class TrialError(RunError):
    """One run failed: the message ends with the traceback of its process.

    What the trainable raised is `cause`, and the error is an instance of its type as well, if it could be pickled.
    """

    cause: Exception | None = None


class CheckpointError(RunError):
    """A checkpoint could not be written, found or read."""


class OptionalDependencyError(RunError, ImportError):
    """A library that a feature needs is not there, or is there and fails to import (the cause is chained)."""
