"""Checks of arguments: the message names who was given what, and what it may be."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kernel_runs import RunError
from kernel_runs.arguments import (
    ArgumentError,
    check_callable,
    check_mode,
    check_number,
    check_whole,
    nearest,
    refuse_unknown,
)


class Mine:
    pass


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_number(Mine(), "rate", "x"), "^Mine: rate is 'x', but must be a number$"),
        (lambda: check_number("tune", "rate", True), "^tune: rate is True, but must be a number$"),
        (
            lambda: check_number("tune", "rate", math.nan, least=0),
            "^tune: rate is nan, but must be a number at least 0$",
        ),
        (lambda: check_number("tune", "rate", 0, above=0), "^tune: rate is 0, but must be a number above 0$"),
        (lambda: check_number("tune", "rate", 2, above=0, most=1), "must be a number above 0 and at most 1$"),
        (lambda: check_number("tune", "rate", -1, least=0, most=1), "must be a number at least 0 and at most 1$"),
        (
            lambda: check_whole("tune", "count", 1.0, least=1),
            "^tune: count is 1.0, but must be a whole number, at least 1$",
        ),
        (lambda: check_whole("tune", "count", True, least=0), "^tune: count is True"),
        (lambda: check_whole("tune", "count", 0, least=1), "^tune: count is 0"),
        (lambda: check_mode("tune", "best"), "^tune: mode is 'best', but must be 'min' or 'max'$"),
        (lambda: check_mode("tune", None, optional=False), "^tune: mode is None"),
        (lambda: check_callable("tune", "stop", 5), "^tune: stop is 5, which can't be called; pass a function$"),
    ],
)
def test_what_can_not_be_is_named(check: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        check()
    assert isinstance(caught.value, RunError) and isinstance(caught.value, ValueError)


def test_what_can_be_is_accepted() -> None:
    check_number("tune", "rate", 0.5, above=0, least=0.5, most=0.5)
    check_whole("tune", "count", 1, least=1)
    check_mode("tune", None)
    check_mode("tune", "min", optional=False)
    check_callable("tune", "stop", len)


def test_the_nearest_name_is_found_whatever_its_case() -> None:
    assert nearest("num_worker", ["num_workers", "use_gpu"]) == " Did you mean 'num_workers'?"
    assert nearest("PLACE", ["Placement", "other"]) == " Did you mean 'Placement'?" and nearest("xyz", ["abc"]) == ""


def takes(name: str = "", *rest: Any, **unknown: Any) -> None:
    refuse_unknown("tune", unknown, takes)


def test_an_argument_that_is_not_there_is_refused_with_the_nearest_and_all_that_are() -> None:
    takes(name="is there")
    with pytest.raises(
        ArgumentError, match=r"^tune has no argument 'nam'. Did you mean 'name'\? Its arguments are name.$"
    ):
        takes(nam=1)


def test_arguments_that_are_too_many_are_not_listed() -> None:
    many = type("Many", (), {"__init__": eval(f"lambda self, {', '.join(f'a{at}' for at in range(21))}: None")})
    with pytest.raises(ArgumentError, match=r"^Many has no argument 'other'.$"):
        refuse_unknown("Many", ["other"], many.__init__)
