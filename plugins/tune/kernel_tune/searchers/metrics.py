"""Metrics as numbers."""

from __future__ import annotations

import math
from typing import Any


def finite_number(value: Any) -> float | None:
    """Return a metric as a finite number; None if it is missing, NaN, infinite or a text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
