"""The reporting calls of the first releases, as one module: `track.log(score=1)`."""

from __future__ import annotations

from typing import Any

from kernel.runs import session as _session


def log(**metrics: Any) -> None:
    """Report every keyword as a metric of the running trial; values of any type."""
    _session.report(metrics)


def trial_dir() -> str | None:
    """Return the directory of the running trial, None outside of one."""
    return _session.get_trial_dir()


logdir = trial_dir


def trial_name() -> str | None:
    """Return the name of the running trial, None outside of one."""
    return _session.get_trial_name()


def trial_id() -> str | None:
    """Return the id of the running trial, None outside of one."""
    return _session.get_trial_id()


def init(*args: Any, **kwargs: Any) -> None:
    """Do nothing: a trial begins by itself."""


def shutdown() -> None:
    """Leave the running trial: reports of this thread are ignored from now on."""
    current = _session.current()
    if current is not None:
        _session.leave_for_good(current)
