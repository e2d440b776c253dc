"""What Serve tells of itself: plain dictionaries, whose entries can be read as attributes as well."""

from __future__ import annotations

from typing import Any


class Facts(dict[str, Any]):
    """A dictionary in which `facts.name` is `facts["name"]`, at all depths. `facts_of` makes one."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"there is no {name!r} here; there are {', '.join(map(str, self)) or 'none'}"
            ) from None


def facts_of(value: Any) -> Any:
    """Return a value in which all dictionaries are `Facts`."""
    if isinstance(value, dict):
        return Facts({name: facts_of(each) for name, each in value.items()})
    if isinstance(value, list):
        return [facts_of(each) for each in value]
    return value
