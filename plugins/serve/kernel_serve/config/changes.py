"""What is different between two configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kernel_spec.dataclass import dataclass


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()
"""In the place of a value that there is not."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A value that is other than before, such as `applications[shop].deployments[Model].num_replicas`."""

    path: str
    before: Any = NOTHING
    after: Any = NOTHING

    def __str__(self) -> str:
        if self.before is NOTHING:
            return f"+ {self.path}" if isinstance(self.after, (dict, list)) else f"+ {self.path}: {self.after!r}"
        if self.after is NOTHING:
            return f"- {self.path}"
        return f"~ {self.path}: {self.before!r} -> {self.after!r}"


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[ConfigChange]:
    """Return what is different between the `data` of two configurations. What has names is compared by name."""
    return list(_changes("", before, after))


def _changes(path: str, before: Any, after: Any) -> Iterator[ConfigChange]:
    if _same(before, after):
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*before, *(name for name in after if name not in before)]:
            inner = f"{path}.{name}" if path else str(name)
            yield from _changes(inner, before.get(name, NOTHING), after.get(name, NOTHING))
        return
    one, other = _by_name(before), _by_name(after)
    if one is not None and other is not None:
        for name in [*one, *(name for name in other if name not in one)]:
            yield from _changes(f"{path}[{name}]", one.get(name, NOTHING), other.get(name, NOTHING))
        return
    yield ConfigChange(path, before, after)


def _same(before: Any, after: Any) -> bool:
    return type(before) is type(after) and bool(before == after)


def _by_name(value: Any) -> dict[str, Any] | None:
    """Return a list of mappings with names by these names; None for everything else."""
    if value is NOTHING or not isinstance(value, list):
        return None
    if not all(isinstance(each, Mapping) and "name" in each for each in value):
        return None
    return {str(each["name"]): each for each in value}
