"""What a function takes along: much is named in a warning, too much is refused before it is copied."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernel_engine.serialization import captures
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_spec.errors import OptionError, SerializationError

GIGABYTE = 1 << 30
table = np.zeros(0)


@pytest.fixture(autouse=True)
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The warnings that were logged."""
    said: list[str] = []

    class Log:
        def warning(self, text: str) -> None:
            said.append(text)

    monkeypatch.setattr(captures, "_log", Log())
    return said


def by_value(target: Any) -> Any:
    """Have cloudpickle send `target` by value, as what is defined in a program or a notebook."""
    target.__module__ = "__main__"
    return target


def closure(value: Any) -> Callable[[], int]:
    def function() -> int:
        return len(value)

    return by_value(function)  # type: ignore[no-any-return]


def default(value: Any) -> Callable[..., int]:
    def function(first: int, rows: Any = value, last: int = 3) -> int:
        return len(rows)

    return by_value(function)  # type: ignore[no-any-return]


def keyword(value: Any) -> Callable[..., int]:
    def function(*, rows: Any = value) -> int:
        return len(rows)

    return by_value(function)  # type: ignore[no-any-return]


def helper(value: Any) -> Callable[[], int]:
    inner = closure(value)

    def function() -> int:
        return inner()

    return by_value(function)  # type: ignore[no-any-return]


def attribute(value: Any) -> type:
    class Model:
        weights = value

    return by_value(Model)  # type: ignore[no-any-return]


KINDS = pytest.mark.parametrize(
    ("make", "named"),
    [
        (closure, "function function() takes along the variable 'value'"),
        (default, "function function() takes along the default of its argument 'rows'"),
        (keyword, "function function() takes along the default of its argument 'rows'"),
        (helper, "function function() takes along the variable 'value'"),
        (attribute, "class Model takes along the attribute 'weights'"),
    ],
)


@KINDS
def test_much_is_named(make: Callable[[Any], Any], named: str, warnings: list[str]) -> None:
    head, _ = ValueSerializer().dumps_function(make(np.zeros(20_000_000, np.uint8)))
    assert len(head) > 20_000_000
    (said,) = warnings
    assert said.startswith(f"the {named}, 20 MB, to every worker") and "kernel.put()" in said


@KINDS
def test_too_much_is_refused_without_a_copy(make: Callable[[Any], Any], named: str) -> None:
    function = make(np.zeros(GIGABYTE, np.uint8))
    tracemalloc.start()
    try:
        with pytest.raises(SerializationError) as caught:
            ValueSerializer().dumps_function(function)
        assert tracemalloc.get_traced_memory()[1] < GIGABYTE / 20
    finally:
        tracemalloc.stop()
    text = str(caught.value)
    assert named.replace(" takes along", ": it takes along") in text, text
    assert "at least 1,074 MB, and the limit is 100 MB" in text and "ref = kernel.put(...)" in text, text


@pytest.mark.parametrize(
    "value", [b"x" * 3_000_000, "x" * 3_000_000, list(range(2_000_000)), {"a": [bytes(3_000_000)]}]
)
def test_other_values_count_too(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_CAPTURE_LIMIT", "2000000")
    with pytest.raises(SerializationError, match="the variable 'value', at least . MB, and the limit is 2 MB"):
        ValueSerializer().dumps_function(closure(value))
    monkeypatch.setenv("KERNEL_CAPTURE_LIMIT", "0")
    ValueSerializer().dumps_function(closure(value))


def test_globals_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def function() -> int:
        return len(table)

    monkeypatch.setitem(globals(), "table", np.zeros(GIGABYTE, np.uint8))
    with pytest.raises(SerializationError, match="the global variable 'table', at least 1,074 MB"):
        ValueSerializer().dumps_function(by_value(function))


def test_what_is_small_is_sent_without_a_word(warnings: list[str]) -> None:
    head, _ = ValueSerializer().dumps_function(closure(np.arange(1000)))
    assert not warnings
    assert ValueSerializer().loads(head)() == 1000


def test_a_limit_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_CAPTURE_LIMIT", "much")
    with pytest.raises(OptionError, match="KERNEL_CAPTURE_LIMIT='much' must be a number of bytes"):
        ValueSerializer().dumps_function(closure([1]))


def test_what_cannot_be_sent_is_explained_as_ever() -> None:
    import threading

    with pytest.raises(
        SerializationError, match=r"can't pickle the function function: function.__closure__\[\"value\"\]"
    ):
        ValueSerializer().dumps_function(closure(threading.Lock()))
