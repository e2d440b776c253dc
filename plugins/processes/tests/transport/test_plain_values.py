"""What users give may be of a class below text, bytes or numbers: it crosses as what it is."""

from __future__ import annotations

import enum
import marshal
from typing import Any

import pytest

from kernel_processes.transport.plain_values import encoded


class Text(str):
    def __str__(self) -> str:
        return "something else"

    def __iter__(self) -> Any:
        raise RuntimeError("nobody is to ask")


class Number(enum.IntEnum):
    TWO = 2


class Data(bytes):
    pass


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (Text("a"), "a"),
        (Data(b"a"), b"a"),
        (Number.TWO, 2),
        ({Text("a"): [Text("b"), (Number.TWO,)]}, {"a": ["b", (2,)]}),
        (frozenset({Text("a")}), frozenset({"a"})),
        (True, True),
        (None, None),
    ],
)
def test_it_arrives_as_a_plain_value(given: Any, plain: Any) -> None:
    (arrived,) = marshal.loads(encoded([(3, given)]))
    assert arrived == (3, plain)


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(ValueError, match="unmarshallable"):
        encoded([(3, object())])
