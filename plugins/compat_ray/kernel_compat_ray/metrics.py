"""`ray.util.metrics`: metrics by Ray's rules, which are those of `kernel.metrics`.

A tag without a value has the empty one, and a name that Prometheus would refuse gets underscores, as with Ray.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kernel import metrics


class Metric:
    """Has a name and tags. Its subclasses Counter, Gauge and Histogram count."""

    _counted: Any = None
    """The metric of the kernel."""

    def __init__(self, name: str, description: str = "", tag_keys: Sequence[str] | None = None) -> None:
        if not name:
            raise ValueError("a metric needs a name")
        if isinstance(tag_keys, str) or not all(isinstance(key, str) for key in tag_keys or ()):
            raise TypeError(f"tag_keys must be a tuple of strings, not {tag_keys!r}")
        self.info: dict[str, Any] = {
            "name": name,
            "description": description,
            "tag_keys": tuple(tag_keys or ()),
            "default_tags": {},
        }

    @property
    def _arguments(self) -> dict[str, Any]:
        """The arguments of kernel's metric."""
        name = re.sub(r"[^a-zA-Z0-9_:]", "_", self.info["name"])
        keys = self.info["tag_keys"]
        return {
            "name": f"_{name}" if name[0].isdigit() else name,
            "description": self.info["description"],
            "tag_keys": keys,
            "default_tags": dict.fromkeys(keys, ""),
        }

    def set_default_tags(self, default_tags: Mapping[str, str]) -> Metric:
        """Set the tags that hold where none are given."""
        self._check(default_tags)
        self.info["default_tags"] = dict(default_tags)
        if self._counted is not None:
            self._counted.set_default_tags({**dict.fromkeys(self.info["tag_keys"], ""), **default_tags})
        return self

    def _check(self, tags: Mapping[str, str] | None) -> None:
        keys: Sequence[str] = self.info["tag_keys"]
        for key, value in (tags or {}).items():
            if key not in keys:
                raise ValueError(
                    f"metric {self.info['name']!r} has no tag {key!r}; its tags are {', '.join(keys) or 'none'}"
                )
            if not isinstance(value, str):
                raise TypeError(f"tag {key!r} of metric {self.info['name']!r} is a text, not {value!r}")


class Counter(Metric):
    """Counts something that only grows."""

    def __init__(self, name: str, description: str = "", tag_keys: Sequence[str] | None = None) -> None:
        super().__init__(name, description, tag_keys)
        self._counted = metrics.Counter(**self._arguments)

    def inc(self, value: float = 1.0, tags: Mapping[str, str] | None = None) -> None:
        """Add to it."""
        if value <= 0:
            raise ValueError(f"a counter grows by more than zero, not by {value}")
        self._check(tags)
        self._counted.inc(value, tags)


class Gauge(Metric):
    """Shows a value that may go up and down."""

    def __init__(self, name: str, description: str = "", tag_keys: Sequence[str] | None = None) -> None:
        super().__init__(name, description, tag_keys)
        self._counted = metrics.Gauge(**self._arguments)

    def set(self, value: float | None, tags: Mapping[str, str] | None = None) -> None:
        """Set it; None leaves it as it is."""
        self._check(tags)
        if value is not None:
            self._counted.set(value, tags)


class Histogram(Metric):
    """Counts values in buckets."""

    def __init__(
        self, name: str, description: str = "", boundaries: Sequence[float] = (), tag_keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(name, description, tag_keys)
        if not boundaries or any(boundary <= 0 for boundary in boundaries):
            raise ValueError(f"histogram {name!r} needs boundaries above zero, not {list(boundaries)!r}")
        self.boundaries = list(boundaries)
        self._counted = metrics.Histogram(**self._arguments, boundaries=sorted(set(boundaries)))

    def observe(self, value: float, tags: Mapping[str, str] | None = None) -> None:
        """Count a value."""
        self._check(tags)
        self._counted.observe(value, tags)
