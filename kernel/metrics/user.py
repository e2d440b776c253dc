"""Metrics that programs, tasks and actors make and count: anywhere, in any thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from kernel.metrics.registry import REGISTRY, MetricRegistry
from kernel_spec.errors import MetricError
from kernel_spec.metric_families import MetricFamily, S
from kernel_spec.metric_series import CounterSeries, GaugeSeries, HistogramSeries

_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # a child must not find it held by a thread that it does not have
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)

M = TypeVar("M", bound="Metric[Any]")


class Metric(Generic[S]):
    """A metric, identified by its name: objects of equal name, kind and tags count the same metric. It can be pickled.

    `automatic` are tags that are set without the caller: a subclass returns their values from `_where`.
    """

    registry: MetricRegistry = REGISTRY
    automatic: tuple[str, ...] = ()
    process_labels: tuple[str, ...] = ()
    """Those of the automatic tags that name the process."""

    def __init__(
        self,
        name: str,
        description: str = "",
        tag_keys: Sequence[str] = (),
        default_tags: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(tag_keys, str) or not all(isinstance(key, str) for key in tag_keys):
            raise MetricError(f"tag_keys of metric {name!r} is a tuple of names, not {tag_keys!r}")
        taken = [key for key in tag_keys if key in self.automatic]
        if taken:
            raise MetricError(f"metric {name!r} has a tag {taken[0]!r}, which every such metric has by itself")
        self.name = name
        self.description = description
        self.tag_keys = tuple(tag_keys)
        self._defaults: dict[str, str] = {}
        self._place = ("",) * len(self.automatic)
        self._known: dict[tuple[Any, ...], S] = {}
        """Series by the values of all tags, where these were given as texts."""
        self._family = self._make((*self.automatic, *self.tag_keys))
        if default_tags:
            self.set_default_tags(default_tags)

    def _make(self, labels: tuple[str, ...]) -> MetricFamily[S]:
        raise NotImplementedError

    def _where(self) -> tuple[str, ...] | None:
        """Return the values of the automatic tags, or None where they are not known yet."""
        return ()

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
        """Set the values of tags that callers do not give; return the metric. Raises MetricError for unknown tags."""
        self._check(default_tags)
        self._defaults = {**self._defaults, **{key: str(value) for key, value in default_tags.items()}}
        return self

    def _series(self, tags: Mapping[str, str] | None) -> S:
        """Return the series for these tags. Raises MetricError for an unknown tag, or one without a value."""
        if tags is not None and len(tags) == len(self.tag_keys):
            quick = tuple([tags.get(key) for key in self.tag_keys])
        elif tags:
            return self._found(tags)[0]
        else:
            quick = ()
        if (known := self._known.get(quick)) is not None:
            return known
        found, is_lasting = self._found(tags)
        if is_lasting and not self._family.is_full and all(type(value) is str for value in quick):
            self._known[quick] = found
        return found

    def _found(self, tags: Mapping[str, str] | None) -> tuple[S, bool]:
        """Return the series, and whether it is the same for these tags at any time."""
        place = self._where()
        if tags:
            self._check(tags)
        given = {**self._defaults, **tags} if tags else self._defaults
        try:
            values = [str(given[key]) for key in self.tag_keys]
        except KeyError as missing:
            raise MetricError(
                f"metric {self.name!r} needs a value of its tag {missing.args[0]!r}: give it with tags={{...}}, or "
                "once with set_default_tags"
            ) from None
        series = self._family.labelled(*(self._place if place is None else place), *values)
        return series, place is not None and len(tags or ()) == len(self.tag_keys)

    def _check(self, tags: Mapping[str, str]) -> None:
        for key in tags:
            if key not in self.tag_keys:
                known = ", ".join(self.tag_keys) or "none"
                raise MetricError(f"metric {self.name!r} has no tag {key!r}: name it in tag_keys; there are: {known}")

    def __reduce__(self) -> Any:
        return type(self), (self.name, self.description, *self._shape(), self._defaults)

    def _shape(self) -> tuple[Any, ...]:
        return (self.tag_keys,)


class Counter(Metric[CounterSeries]):
    """A number that only grows: `inc`."""

    def _make(self, labels: tuple[str, ...]) -> MetricFamily[CounterSeries]:
        return self.registry.counter(self.name, self.description, labels, self.process_labels)

    def inc(self, value: float = 1.0, tags: Mapping[str, str] | None = None) -> None:
        """Add `value`. Raises MetricError for a negative value, and for wrong tags."""
        if value < 0:
            raise MetricError(f"counter {self.name!r} can only grow, not by {value!r}: use a Gauge for what goes down")
        with _lock:
            self._series(tags).value += value


class Gauge(Metric[GaugeSeries]):
    """A number that goes up and down: `set`. Values of several processes for the same series are added up."""

    def _make(self, labels: tuple[str, ...]) -> MetricFamily[GaugeSeries]:
        return self.registry.gauge(self.name, self.description, labels)

    def set(self, value: float, tags: Mapping[str, str] | None = None) -> None:
        """Set the gauge to `value`. Raises MetricError for wrong tags."""
        with _lock:
            self._series(tags).value = float(value)


class Histogram(Metric[HistogramSeries]):
    """A distribution of values: `observe`. `boundaries` are the upper bounds of its buckets, in rising order."""

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

    def _make(self, labels: tuple[str, ...]) -> MetricFamily[HistogramSeries]:
        return self.registry.histogram(self.name, self.description, labels, self.boundaries, self.process_labels)

    def observe(self, value: float, tags: Mapping[str, str] | None = None) -> None:
        """Count a value. Raises MetricError for wrong tags."""
        with _lock:
            self._series(tags).observe(value)

    def _shape(self) -> tuple[Any, ...]:
        return self.boundaries, self.tag_keys
