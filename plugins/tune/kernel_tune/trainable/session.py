"""The functions that a function trainable calls. They are those of all runs (`kernel_runs.session`)."""

from __future__ import annotations

from kernel_runs.reports import metrics_of
from kernel_runs.session import (
    Context,
    current,
    enter,
    get_checkpoint,
    get_context,
    get_trial_dir,
    get_trial_id,
    get_trial_name,
    leave,
    leave_for_good,
    report,
)
from kernel_runs.trainable.function_session import FARTHEST_AHEAD, Delivery, FunctionSession, checkpoint_dir

__all__ = [
    "FARTHEST_AHEAD", "Report", "Session", "TuneContext", "checkpoint_dir", "current", "enter", "get_checkpoint",
    "get_context", "get_trial_dir", "get_trial_id", "get_trial_name", "leave", "leave_for_good", "metrics_of", "report",
]  # fmt: skip

Report = Delivery
Session = FunctionSession
TuneContext = Context
