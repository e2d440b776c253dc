"""Checking a value against a type, as it is written in annotations: `int`, `float | None`, `list[int]`, `Literal[...]`.

A value of a number's or a container's near kin is taken as one: 1e4 for 10000, numpy's scalars, a tuple for a list.
What a search still has to choose fits everywhere.
"""

from __future__ import annotations

import collections.abc
import math
import types
from typing import Any, Literal, Union, get_args, get_origin

from kernel_rllib.config.search_spaces import is_search_space

Schedule = Union[list[list[float]], list[tuple[float, float]], dict[str, Any]]  # noqa: UP007 - a value, not an annotation
"""A number that changes over timesteps: `[[0, 1e-3], [10_000, 1e-4]]`, or a dict with a `type`."""


class Mismatch(Exception):
    """Raised where a value is not of a type."""


def fitted(value: Any, wanted: Any) -> Any:
    """Return a value as one of a type. Raises `Mismatch` where it is none."""
    if wanted is Any or is_search_space(value):
        return value
    origin = get_origin(wanted)
    if origin is Union or origin is types.UnionType:
        return _one_of(value, get_args(wanted))
    if origin is Literal:
        return _option(value, get_args(wanted))
    return _FITTED.get(origin or wanted, _instance)(value, wanted)


def described(wanted: Any) -> str:
    """Return a type in words: "a whole number or None"."""
    *first, last = dict.fromkeys(_alternatives(wanted))
    return f"{', '.join(first)} or {last}" if first else last


def options(wanted: Any) -> list[str]:
    """Return the words that a type lists, in alphabetical order: the nearest to a wrong one can be told from them."""
    if get_origin(wanted) is Literal:
        return sorted(each for each in get_args(wanted) if isinstance(each, str))
    return sorted(word for each in get_args(wanted) for word in options(each))


def _alternatives(wanted: Any, is_part: bool = False) -> collections.abc.Iterator[str]:
    """Yield the alternatives of a type in words: choices as they were declared, those in a union in sorted order.

    `typing` keeps unions, and returns one again for the same types. `Literal["a", "b"]` and `Literal["b", "a"]` are the
    same to it, so the order in a union is that of whichever was imported first.
    """
    origin, inner = get_origin(wanted), get_args(wanted)
    if wanted in _PAIRS:
        yield "a list of [timestep, value] pairs"
    elif origin is Union or origin is types.UnionType:
        for each in inner:
            yield from _alternatives(each, is_part=True)
    elif origin is Literal:
        yield from map(repr, sorted(inner, key=lambda each: (type(each).__name__, each)) if is_part else inner)
    elif origin in (list, collections.abc.Sequence) and inner and inner[0] in _PLURALS:
        yield f"a list of {_PLURALS[inner[0]]}"
    else:
        yield _WORDS.get(origin or wanted) or f"a {getattr(wanted, '__name__', wanted)}"


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")  # those of both forms of numpy


def _one_of(value: Any, alternatives: tuple[Any, ...]) -> Any:
    for each in alternatives:
        try:
            return fitted(value, each)
        except Mismatch:
            continue
    raise Mismatch


def _option(value: Any, known: tuple[Any, ...]) -> Any:
    for each in known:
        if type(each) is type(value) and each == value:
            return each
    raise Mismatch


def _flag(value: Any, wanted: Any) -> bool:
    if _is_flag(value):
        return bool(value)
    raise Mismatch


def _whole(value: Any, wanted: Any) -> int:
    if _is_flag(value):
        raise Mismatch
    if isinstance(value, int):
        return value
    if hasattr(value, "__index__") and not getattr(value, "shape", ()):
        return int(value.__index__())
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise Mismatch


def _number(value: Any, wanted: Any) -> float:
    if _is_flag(value) or isinstance(value, (str, bytes)) or getattr(value, "shape", ()) != ():
        raise Mismatch
    if not isinstance(value, (int, float)):
        if not hasattr(value, "__float__"):
            raise Mismatch
        value = float(value)
    if math.isnan(value):
        raise Mismatch
    return value  # type: ignore[no-any-return]


def _dict(value: Any, wanted: Any) -> Any:
    if isinstance(value, collections.abc.Mapping):
        return value
    raise Mismatch


def _list(value: Any, wanted: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise Mismatch
    inner = get_args(wanted)
    return [fitted(each, inner[0]) for each in value] if inner else list(value)


def _tuple(value: Any, wanted: Any) -> tuple[Any, ...]:
    inner = get_args(wanted)
    if not isinstance(value, (list, tuple)) or (inner and len(inner) != len(value)):
        raise Mismatch
    return tuple(fitted(each, kind) for each, kind in zip(value, inner, strict=True)) if inner else tuple(value)


def _function(value: Any, wanted: Any) -> Any:
    if callable(value):
        return value
    raise Mismatch


def _class(value: Any, wanted: Any) -> Any:
    if isinstance(value, type):
        return value
    raise Mismatch


def _instance(value: Any, wanted: Any) -> Any:
    if isinstance(value, get_origin(wanted) or wanted):
        return value
    raise Mismatch


def _nothing(value: Any, wanted: Any) -> None:
    if value is not None:
        raise Mismatch


_FITTED: dict[Any, Any] = {
    bool: _flag,
    int: _whole,
    float: _number,
    dict: _dict,
    list: _list,
    tuple: _tuple,
    type: _class,
    types.NoneType: _nothing,
    None: _nothing,
    collections.abc.Sequence: _list,
    collections.abc.Callable: _function,
    collections.abc.Mapping: _dict,
}

_WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    dict: "a dict",
    list: "a list",
    tuple: "a tuple",
    type: "a class",
    types.NoneType: "None",
    None: "None",
    collections.abc.Sequence: "a list",
    collections.abc.Callable: "a function",
    collections.abc.Mapping: "a dict",
}

_PAIRS = (list[list[float]], list[tuple[float, float]])
_PLURALS: dict[Any, str] = {int: "whole numbers", float: "numbers", str: "texts"}
