"""Types of the status: plain dictionaries, whose entries can be read as attributes as well."""

from __future__ import annotations

from collections.abc import KeysView, Mapping
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


class StatusWord(str):
    """A status such as "RUNNING". Like a member of an enumeration it has a `name` and a `value`."""

    __slots__ = ()

    @property
    def value(self) -> str:
        """The text."""
        return str(self)

    name = value


class ProxyFacts(StatusWord):
    """The status of a proxy, such as "HEALTHY". `facts["address"]` and `facts.address` are more that is known of it."""

    __slots__ = ("_known",)

    _known: Facts

    def __new__(cls, known: Mapping[str, Any]) -> ProxyFacts:
        """Return the status, with all that is known."""
        made = super().__new__(cls, known["status"])
        made._known = Facts(known)
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._known, name)

    def __getitem__(self, name: Any) -> Any:
        return self._known[name] if isinstance(name, str) else super().__getitem__(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return ProxyFacts, (dict(self._known),)

    def keys(self) -> KeysView[str]:
        """Return the names of what is known: `dict(facts)` has all of it."""
        return self._known.keys()

    def get(self, name: str, default: Any = None) -> Any:
        """Return what is known by a name."""
        return self._known.get(name, default)


def facts_of(value: Any) -> Any:
    """Return a value in which all dictionaries are `Facts`, and each entry `status` is a `StatusWord`."""
    if isinstance(value, dict):
        found = Facts({name: facts_of(each) for name, each in value.items()})
        if isinstance(found.get("status"), str):
            found["status"] = StatusWord(found["status"])
        return found
    if isinstance(value, list):
        return [facts_of(each) for each in value]
    return value
