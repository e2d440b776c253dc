"""What each key of a load may be: words for people, and a function that understands the value or raises."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kernel_simulation.distributions import ARRIVALS, DURATIONS, Distribution
from kernel_simulation.load import ACTIONS, FORMS
from kernel_spec.resources import amounts

DISTRIBUTIONS = {"duration": ("distribution", DURATIONS), "arrival": ("process", ARRIVALS)}
"""Key of a distribution to the key inside that says which, and those there are."""

_ANY_ABOVE_ZERO = ("mean", "rate")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(value)
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(value)
    if not 0 <= value < math.inf:
        raise ValueError(value)
    return float(value)


def _above_zero(value: Any) -> float:
    if not _number(value):
        raise ValueError(value)
    return float(value)


def _share(value: Any) -> float:
    if _number(value) > 1:
        raise ValueError(value)
    return float(value)


def _whole(value: Any) -> int:
    if int(_number(value)) != value:
        raise ValueError(value)
    return int(value)


def _count(value: Any) -> int:
    return _whole(_above_zero(value))


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(value)
    return {_text(key): entry for key, entry in value.items()}


def _resources(value: Any) -> dict[str, float]:
    resources = {name: _number(quantity) for name, quantity in _mapping(value).items()}
    amounts(resources)
    return resources


def _labels(value: Any) -> dict[str, str]:
    return {name: _text(label) for name, label in _mapping(value).items()}


def _strategy(value: Any) -> str | dict[str, Any]:
    return _text(value) if isinstance(value, str) else _mapping(value)


def _bundles(value: Any) -> tuple[dict[str, float], ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(value)
    return tuple(_resources(bundle) for bundle in value)


def _one_of(words: Collection[str]) -> tuple[str, Callable[[Any], str]]:
    def understand(value: Any) -> str:
        if value not in words:
            raise ValueError(value)
        return str(value)

    return f"one of {', '.join(words)}", understand


def _distribution(key: str) -> tuple[str, Callable[[Any], Distribution]]:
    word_key, known = DISTRIBUTIONS[key]

    def understand(value: Any) -> Distribution:
        if not isinstance(value, Mapping):
            value = {word_key: value} if isinstance(value, str) else {word_key: "fixed", "seconds": value}
        numbers = {name: number for name, number in value.items() if name != word_key}
        word = value[word_key]
        needs, _ = known[word]
        if not {name for name, needed in needs.items() if needed} <= numbers.keys() <= needs.keys():
            raise ValueError(value)
        return Distribution(word, {name: _quantity(name, number) for name, number in numbers.items()})

    forms = "; ".join(f"{word} with {' and '.join(needs)}" if needs else word for word, (needs, _) in known.items())
    least = "seconds, or " if key == "duration" else ""
    return f"{least}a table that names a {word_key}, each with its numbers ({forms})", understand


def _quantity(name: str, value: Any) -> Any:
    if name in ("values", "times"):
        if not isinstance(value, Sequence) or not value:
            raise TypeError(value)
        return [_number(one) for one in value]
    return _above_zero(value) if name in _ANY_ABOVE_ZERO else _number(value)


_TEXT = ("a text", _text)
_NUMBER = ("a number, zero or more", _number)
_WHOLE = ("a whole number, zero or more", _whole)
_COUNT = ("a whole number above zero", _count)
_LIST = ("a list", tuple)

VALUES: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "name": _TEXT,
    "kind": _TEXT,
    "job": _TEXT,
    "resource": _TEXT,
    "count": _COUNT,
    "processes": _COUNT,
    "retries": _WHOLE,
    "input_bytes": _WHOLE,
    "resources": ("a table of names and quantities", _resources),
    "labels": ("a table of names and texts", _labels),
    "hints": ("a table", _mapping),
    "strategy": ("a text or a table", _strategy),
    "bundles": ("a list of tables of names and quantities", _bundles),
    "fails_every": _NUMBER,
    "back_after": _NUMBER,
    "at": _NUMBER,
    "seconds": _NUMBER,
    "quantity": _NUMBER,
    "tick_seconds": ("a number above zero", _above_zero),
    "grant_seconds": _NUMBER,
    "blocked": ("a share from 0 to 1", _share),
    "preemptible": ("true or false", _truth),
    "action": _one_of(ACTIONS),
    "form": _one_of(FORMS),
    "duration": _distribution("duration"),
    "arrival": _distribution("arrival"),
    "nodes": _LIST,
    "work": _LIST,
    "changes": _LIST,
}
"""Key to what it must be, in words, and what turns the value given into the one kept."""
