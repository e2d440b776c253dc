"""Stop a run when metrics reach given values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_rllib.errors import ConfigError
from kernel_rllib.nearest import did_you_mean
from kernel_runs.reports import Report, flatten, look_up, own_keys


class Stopping:
    """Says when a run ends: with the first result in which one of the metrics has reached its value."""

    def __init__(self, stop: Mapping[str, Any]) -> None:
        """End by these metrics, each with the least value that ends the run. Raises ConfigError for no number."""
        for metric, value in stop.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ConfigError(f"stop[{metric!r}] is {value!r}, but must be the number that ends the run")
        self._stop = dict(stop)

    def reason(self, result: Report) -> str:
        """Return what has been reached, in words, or nothing.

        Raises:
            ConfigError: If a metric is not in the result.
        """
        for metric, limit in self._stop.items():
            value = look_up(result, metric)
            if value is None:
                raise ConfigError(
                    f"stop asks for {metric!r}, which results do not have{did_you_mean(metric, flatten(result))}; they "
                    f"have {own_keys(result)}"
                )
            if value >= limit:
                return f"{metric} is {value:,.6g}, and {limit:,.6g} was asked for"
        return ""
