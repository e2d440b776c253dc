"""Metrics of deployments' own: made and counted anywhere in user code, in any thread.

They carry the application, the deployment and the replica in which they count, beside the tags that they are given.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from kernel_serve.context import replica_of_process
from kernel_serve.errors import MetricError
from kernel_serve.metrics.registry import MOST_SERIES, REGISTRY, Family
from kernel_serve.metrics.series import CounterSeries, GaugeSeries, HistogramSeries

_AUTOMATIC = ("application", "deployment", "replica")
_lock = threading.Lock()

S = TypeVar("S", bound=CounterSeries | GaugeSeries | HistogramSeries)
M = TypeVar("M", bound="_Metric[Any]")


class _Metric(Generic[S]):
    """A family whose first labels are where it counts."""

    def __init__(
        self,
        name: str,
        description: str = "",
        tag_keys: Sequence[str] = (),
        default_tags: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(tag_keys, str) or not all(isinstance(key, str) for key in tag_keys):
            raise MetricError(f"tag_keys of metric {name!r} is a tuple of names, not {tag_keys!r}")
        taken = [key for key in tag_keys if key in _AUTOMATIC]
        if taken:
            raise MetricError(
                f"metric {name!r} has a tag {taken[0]!r}, which every metric of a deployment has by itself"
            )
        self.name = name
        self.description = description
        self.tag_keys = tuple(tag_keys)
        self._defaults: dict[str, str] = {}
        self._place = ("", "", "")
        self._known: dict[tuple[Any, ...], S] = {}
        """Series by the values of all tags, where these were given as texts."""
        self._family = self._make()
        if default_tags:
            self.set_default_tags(default_tags)

    def _make(self) -> Family[S]:
        raise NotImplementedError

    @property
    def info(self) -> dict[str, Any]:
        """Name, description, tag keys and default tags."""
        return {
            "name": self.name,
            "description": self.description,
            "tag_keys": self.tag_keys,
            "default_tags": dict(self._defaults),
        }

    def set_default_tags(self: M, default_tags: Mapping[str, str]) -> M:
        """Let these be the values of tags that are not given; return the metric. Raises MetricError for others."""
        self._check(default_tags)
        self._defaults = {**self._defaults, **{key: str(value) for key, value in default_tags.items()}}
        return self

    def _series(self, tags: Mapping[str, str] | None) -> S:
        """Return the series for these tags. Raises MetricError for a tag that is unknown, or has no value."""
        if tags is not None and len(tags) == len(self.tag_keys):
            quick = tuple([tags.get(key) for key in self.tag_keys])
            if (known := self._known.get(quick)) is not None:
                return known
            found = self._found(tags)
            if len(self._known) < MOST_SERIES and self._place[2] and all(type(value) is str for value in quick):
                self._known[quick] = found
            return found
        return self._found(tags)

    def _found(self, tags: Mapping[str, str] | None) -> S:
        place = self._here()
        if tags:
            self._check(tags)
        given = {**self._defaults, **tags} if tags else self._defaults
        try:
            values = (*place, *[str(given[key]) for key in self.tag_keys])
        except KeyError as missing:
            raise MetricError(
                f"metric {self.name!r} needs a value of its tag {missing.args[0]!r}: give it with tags={{...}}, or "
                "once with set_default_tags"
            ) from None
        return self._family.labelled(*values)

    def _here(self) -> tuple[str, ...]:
        if not self._place[2]:
            replica = replica_of_process()
            if replica is not None:
                self._place = (replica.app_name, replica.deployment, replica.replica_id)
        return self._place

    def _check(self, tags: Mapping[str, str]) -> None:
        for key in tags:
            if key not in self.tag_keys:
                known = ", ".join(self.tag_keys) or "none"
                raise MetricError(f"metric {self.name!r} has no tag {key!r}: name it in tag_keys; there are: {known}")

    def __reduce__(self) -> Any:
        return type(self), (self.name, self.description, *self._shape(), self._defaults)

    def _shape(self) -> tuple[Any, ...]:
        return (self.tag_keys,)


class Counter(_Metric[CounterSeries]):
    """A number that only grows: `inc`."""

    def _make(self) -> Family[CounterSeries]:
        return REGISTRY.counter(self.name, self.description, (*_AUTOMATIC, *self.tag_keys))

    def inc(self, value: float = 1.0, tags: Mapping[str, str] | None = None) -> None:
        """Count `value` more. Raises MetricError for one below 0, and for wrong tags."""
        if value < 0:
            raise MetricError(f"counter {self.name!r} can only grow, not by {value!r}: use a Gauge for what goes down")
        with _lock:
            self._series(tags).value += value


class Gauge(_Metric[GaugeSeries]):
    """A number that is as it is now: `set`."""

    def _make(self) -> Family[GaugeSeries]:
        return REGISTRY.gauge(self.name, self.description, (*_AUTOMATIC, *self.tag_keys))

    def set(self, value: float, tags: Mapping[str, str] | None = None) -> None:
        """Let it be `value`. Raises MetricError for wrong tags."""
        with _lock:
            self._series(tags).value = float(value)


class Histogram(_Metric[HistogramSeries]):
    """How values are spread: `observe`. `boundaries` are the upper bounds of its buckets, in rising order."""

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: Sequence[float] = (),
        tag_keys: Sequence[str] = (),
        default_tags: Mapping[str, str] | None = None,
    ) -> None:
        self.boundaries = tuple(boundaries)
        super().__init__(name, description, tag_keys, default_tags)

    def _make(self) -> Family[HistogramSeries]:
        return REGISTRY.histogram(self.name, self.description, (*_AUTOMATIC, *self.tag_keys), self.boundaries)

    def observe(self, value: float, tags: Mapping[str, str] | None = None) -> None:
        """Count a value. Raises MetricError for wrong tags."""
        with _lock:
            self._series(tags).observe(value)

    def _shape(self) -> tuple[Any, ...]:
        return self.boundaries, self.tag_keys
