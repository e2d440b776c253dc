"""`ray.util.metrics`: metrics that check what they are given, and are shown nowhere, as kernel exports none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernel_compat_ray.deprecation import warn_ignored

_warned = False


class Metric:
    """A metric with a name and tags."""

    def __init__(self, name: str, description: str = "", tag_keys: Sequence[str] | None = None) -> None:
        global _warned
        if not name:
            raise ValueError("a metric needs a name")
        if isinstance(tag_keys, str) or not all(isinstance(key, str) for key in tag_keys or ()):
            raise TypeError(f"tag_keys must be a tuple of strings, not {tag_keys!r}")
        self.info = {"name": name, "description": description, "tag_keys": tuple(tag_keys or ()), "default_tags": {}}
        if not _warned:
            _warned = True
            warn_ignored(f"{type(self).__name__}({name!r})", "no metrics are exported; an observer plugin hears events")

    def set_default_tags(self, default_tags: Mapping[str, str]) -> Metric:
        """Set the tags that hold where none are given."""
        self._check(default_tags)
        self.info["default_tags"] = dict(default_tags)
        return self

    def _check(self, tags: Mapping[str, str] | None) -> None:
        keys: Sequence[str] = self.info["tag_keys"]  # type: ignore[assignment]
        for key in tags or ():
            if key not in keys:
                raise ValueError(
                    f"metric {self.info['name']!r} has no tag {key!r}; its tags are {', '.join(keys) or 'none'}"
                )


class Counter(Metric):
    """Something that only grows."""

    def inc(self, value: float = 1.0, tags: Mapping[str, str] | None = None) -> None:
        """Add to it."""
        if value <= 0:
            raise ValueError(f"a counter grows by more than zero, not by {value}")
        self._check(tags)


class Gauge(Metric):
    """Something that has a value."""

    def set(self, value: float | None, tags: Mapping[str, str] | None = None) -> None:
        """Set it."""
        self._check(tags)


class Histogram(Metric):
    """Something whose values are counted in buckets."""

    def __init__(
        self, name: str, description: str = "", boundaries: Sequence[float] = (), tag_keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(name, description, tag_keys)
        if not boundaries or any(boundary <= 0 for boundary in boundaries):
            raise ValueError(f"histogram {name!r} needs boundaries above zero, not {list(boundaries)!r}")

    def observe(self, value: float, tags: Mapping[str, str] | None = None) -> None:
        """Count a value."""
        self._check(tags)
