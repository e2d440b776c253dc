"""Results as pandas tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_runs.optional import needed
from kernel_runs.reports import Report, flatten


def pandas() -> Any:
    """Import pandas and return it. Raises OptionalDependencyError if it is not installed."""
    return needed("pandas", "a table of results", '"kernel-tune[pandas]"')


def frame_of(results: Sequence[Report]) -> Any:
    """Return a table with a row for each result, and columns like `a/b` for nested values."""
    return pandas().DataFrame([flatten(result) for result in results])
