"""The keys of what trials report. They are those of all runs, in `kernel_runs.reports`."""

from __future__ import annotations

from kernel_runs.reports import *  # noqa: F403
from kernel_runs.reports import Report as Result  # noqa: F401
