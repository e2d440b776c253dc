"""Calls that do not fit are told of in Python's own words, and those that fit are let through."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kernel.api.parameters import UNKNOWN, SignatureParameters, parameters_of


class Things:
    def method(self, a: int, b: int = 0) -> None: ...
    @classmethod
    def of_class(cls, a: int) -> None: ...
    @staticmethod
    def static(a: int) -> None: ...


FUNCTIONS: list[Callable[..., Any]] = [
    lambda: None,
    lambda a: None,
    lambda a, b=0: None,
    lambda a, b, c=0, d=0: None,
    lambda a, /, b, *, c: None,
    lambda a, /, b=0, *, c=0, d: None,
    lambda a, b, *more: None,
    lambda a, **more: None,
    lambda a, /, **more: None,
    lambda *more, c: None,
]


def verdict(function: Callable[..., Any], count: int, names: tuple[str, ...]) -> str:
    """Return what Python says of a call, without the name."""
    try:
        function(*range(count), **dict.fromkeys(names, 0))
    except TypeError as error:
        return str(error).partition("() ")[2]
    return ""


@pytest.mark.parametrize("function", FUNCTIONS, ids=range(len(FUNCTIONS)))
def test_what_fits_and_what_does_not_is_what_python_says(function: Callable[..., Any]) -> None:
    takes = parameters_of(function)
    for count, many in itertools.product(range(6), range(3)):
        for names in itertools.combinations("abcde", many):
            said, expected = takes.problem(count, dict.fromkeys(names)), verdict(function, count, names)
            assert bool(said) == bool(expected), (count, names, said, expected)
            if expected.startswith("missing") and said.startswith("missing"):
                assert said == expected
            if not names:
                assert (takes.least <= count <= takes.most) <= (not expected), "let through without a look"


def test_the_object_or_class_is_not_counted() -> None:
    bound = parameters_of(Things.method, bound=True)
    assert (bound.least, bound.most) == (1, 2)
    assert parameters_of(Things.of_class) == parameters_of(Things.static)


def test_of_what_is_no_python_function_nothing_is_known() -> None:
    assert parameters_of(len) is UNKNOWN and parameters_of(Things) is UNKNOWN
    assert UNKNOWN.problem(7, {"any": 1}) == ""


def test_they_travel_as_plain_values() -> None:
    takes = parameters_of(FUNCTIONS[4])
    assert SignatureParameters(*tuple(takes)) == takes
