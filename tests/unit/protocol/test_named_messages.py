"""Named messages are plain tuples on the wire, and what they are at both ends."""

from __future__ import annotations

import marshal
from typing import NamedTuple

import pytest

from kernel.protocol.named_messages import is_kind, number_of, numbered, packed, unpacked, way_of
from kernel_spec.errors import ProtocolError


@numbered(7, "agent -> head")
class Greeted(NamedTuple):
    """Somebody was greeted, `times` times."""

    name: str
    times: int = 1


def test_the_wire_carries_a_plain_tuple_of_the_number_and_the_fields() -> None:
    message = packed(Greeted(name="Ada", times=2))
    assert message == (7, "Ada", 2) and type(message) is tuple
    assert unpacked(Greeted, message) == Greeted("Ada", 2)


def test_a_named_message_can_be_marshalled_as_it_is() -> None:
    """Else the messages beside it were looked through for what is no plain value."""
    assert marshal.loads(marshal.dumps([packed(Greeted("Ada"))])) == [(7, "Ada", 1)]


def test_a_kind_has_a_number_and_a_way() -> None:
    assert (number_of(Greeted), way_of(Greeted)) == (7, "agent -> head")
    assert is_kind(Greeted) and not is_kind(Greeted("Ada")) and not is_kind(int)


def test_a_message_without_its_fields_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"a peer sent \(7,\), which is no Greeted: .*name"):
        unpacked(Greeted, (7,))
