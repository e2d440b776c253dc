"""Named messages are plain tuples on the wire, and what they are at both ends."""

from __future__ import annotations

import ast
import marshal
from pathlib import Path
from typing import Any

import pytest
from kernel_network_tcp.relay import relay_messages

from kernel_engine.messages import process_messages
from kernel_engine.messages.message_fields import MessageFields
from kernel_engine.messages.named_messages import is_kind, number_of, numbered, packed, unpacked, way_of
from kernel_processes.node import template_messages
from kernel_processes.protocol import head_messages
from kernel_spec.errors import ProtocolError

ROOT = Path(__file__).resolve().parents[4]
PACKAGES = [f"plugins/{name}/kernel_{name}" for name in ("engine", "local_mode", "processes")]
MODULES = (head_messages, process_messages, relay_messages, template_messages)


@numbered(7, "agent -> head")
class Greeted(MessageFields):
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


def test_fields_are_named_and_shown_and_have_defaults() -> None:
    greeted = Greeted("Ada")
    assert (greeted.name, greeted.times) == ("Ada", 1) == tuple(greeted)
    assert repr(greeted) == "Greeted(name='Ada', times=1)" and Greeted._fields == ("name", "times")
    with pytest.raises(AttributeError):
        greeted.name = "Grace"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "named", "words"),
    [
        ((), {"times": 1}, "Greeted was not given name"),
        (("Ada", 1, 2), {}, r"Greeted has the fields \('name', 'times'\), and was given \('Ada', 1, 2\) and {}"),
        (("Ada",), {"name": "Ada"}, "was given .* and {'name': 'Ada'}"),
        (("Ada",), {"time": 1}, "was given .* and {'time': 1}"),
    ],
)
def test_fields_that_are_missing_unknown_or_given_twice(
    values: tuple[Any, ...], named: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        Greeted(*values, **named)


def test_a_kind_has_a_number_and_a_way() -> None:
    assert (number_of(Greeted), way_of(Greeted)) == (7, "agent -> head")
    assert is_kind(Greeted) and not is_kind(Greeted("Ada")) and not is_kind(int)


def test_a_named_message_is_packed_wherever_it_is_made() -> None:
    """Type checkers take it for any tuple: sent as it is, its first field would be taken for its number."""
    kinds = {name for module in MODULES for name, value in vars(module).items() if is_kind(value)}
    made, packings = set(), set()
    for file in sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and name_of(call) in kinds:
                made.add(f"{file}:{call.lineno}:{call.col_offset}")
            if isinstance(call, ast.Call) and name_of(call) == "packed":
                (given,) = call.args
                packings.add(f"{file}:{given.lineno}:{given.col_offset}")
    assert made == packings and len(made) > 50


def name_of(call: ast.Call) -> str:
    """Return the last name of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def test_a_message_without_its_fields_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"a peer sent \(7,\), which is no Greeted: .*name"):
        unpacked(Greeted, (7,))
