"""The gradient of a batch that is too large to be differentiated at once: the mean of its parts' gradients."""

from __future__ import annotations

from typing import Any

from kernel_rllib.learners.learner import Metrics


class GradientMean:
    """Adds up gradients and reports of parts of a batch, each by how many steps it has."""

    def __init__(self) -> None:
        self.count = 0
        """The number of steps in all parts together."""
        self._sum: Any = None
        self._metrics: Metrics = {}

    def add(self, metrics: Metrics, gradient: Any, count: int) -> None:
        """Take in a part.

        Args:
            metrics: The metrics of its loss, means over its steps.
            gradient: The gradient of its loss [size], of any backend's kind. It is not kept.
            count: The number of its steps.
        """
        if self._sum is None:
            self._sum = gradient * count
        else:
            self._sum += gradient * count
        for name, value in metrics.items():
            self._metrics[name] = self._metrics.get(name, 0.0) + value * count
        self.count += count

    def mean(self) -> tuple[Metrics, Any]:
        """Return what the loss of all parts together reports, and its gradient [size]."""
        metrics = {name: value / self.count for name, value in self._metrics.items()}
        return metrics, self._sum / self.count
