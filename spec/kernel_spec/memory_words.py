"""Users' choices about memory, and the faults of workers that were ended for it: constants of every process."""

from __future__ import annotations

from kernel_spec.errors import OptionError

ACTORS, ALL, NONE = "actors", "all", "none"
QUOTAS = (ACTORS, ALL, NONE)
"""Kinds of workers whose memory quota (`memory=`) is enforced, rather than only reserved."""
THRESHOLD = 0.95
"""Default share of memory in use at which workers are ended."""

CROWDED_OUT = "crowded out"
"""Memory ran out, and others held more of it: what the worker ran is run again, without counting as a retry."""
OUT_OF_MEMORY = "out of memory"
"""Memory ran out, and this worker held most of it: what it ran is run again if it has retries left."""
OVER_QUOTA = "over quota"
"""The worker exceeded its own quota: a task is not run again, as it would do so again."""
FAULTS = (CROWDED_OUT, OUT_OF_MEMORY, OVER_QUOTA)


def check_threshold(value: float) -> None:
    """Raise OptionError unless 0 <= value <= 1."""
    if not 0 <= value <= 1:
        raise OptionError(f"memory_threshold is a share of memory from 0 (never end a worker) to 1, not {value}")


def check_quotas(value: str) -> None:
    """Raise OptionError unless `value` is one of QUOTAS."""
    if value not in QUOTAS:
        raise OptionError(f"memory_quotas must be {', '.join(map(repr, QUOTAS[:-1]))} or {QUOTAS[-1]!r}, not {value!r}")
