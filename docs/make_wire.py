"""Write docs/wire.md from the messages' definitions: `python docs/make_wire.py`. A test compares both."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from kernel_network_tcp import agent_messages
from kernel_network_tcp.relay import relay_messages

from kernel_engine.messages import process_messages
from kernel_engine.messages.named_messages import is_kind, number_of, way_of
from kernel_processes.node import template_messages
from kernel_processes.protocol import head_messages

PAGE = Path(__file__).with_name("wire.md")
SECTIONS = {
    "Between the head and the agents": head_messages,
    "Between processes": process_messages,
    "Between agents": agent_messages,
    "Between the agent of a remote driver and the relay": relay_messages,
    "Between an agent and its template of workers": template_messages,
}
INTRODUCTION = """\
# The wire

Every message that processes of a session send each other, by number. Made by `python docs/make_wire.py` from the
definitions in `kernel_engine/messages`, `kernel_processes/protocol` and `kernel_network_tcp`.

A connection carries frames: a four byte little-endian length, and so many bytes of `marshal`. A frame is a list of
messages, and a message is a tuple of plain values: its number first, then its fields in the order given here. Numbers
count for one kind of connection, so each section has its own. All processes of a session run the same version of
kernel and of Python, and a peer says so in its first message. Before that, both ends have proved the session's token
([security.md](security.md)).

A name in capitals is sent for every task, object or lease: its tuple is written where it is sent. Any other name is a
class with these fields, and only becomes a tuple on its way (`kernel_engine.messages.named_messages`).

Two conversations have a form of their own, and are described where they are written: pieces of objects between nodes in
`kernel_network_tcp/transfer/protocol.py`, and the debugger in `kernel_processes/protocol/debug_conversation.py`.
"""
_DESCRIPTION = re.compile(r"(?P<way>[^:]+? <?-> [^:]+): (?P<fields>.+?)\. (?P<meaning>.+)")

Row = tuple[int, str, str, str, str]
"""Number, name, way, fields and meaning of a message."""


def constants(module: ModuleType) -> Iterator[tuple[str, int | str, str]]:
    """Yield name, value and description of each constant that has one."""
    body = ast.parse(inspect.getsource(module)).body
    for statement, text in pairwise(body):
        if isinstance(statement, ast.Assign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            (target,) = statement.targets
            yield ast.unparse(target), ast.literal_eval(statement.value), " ".join(str(text.value.value).split())


def tuple_rows(module: ModuleType) -> list[Row]:
    """Return the messages that are tuples, as the text below each number describes them."""
    found = []
    for name, number, said in constants(module):
        if " -> " in said:
            described = _DESCRIPTION.fullmatch(said)
            if described is None:
                raise ValueError(f'{name} is described as {said!r}, not as "from -> to: fields. Meaning."')
            fields = "" if described["fields"] == "nothing" else described["fields"]
            found.append((int(number), name, described["way"], fields, described["meaning"]))
    return found


def values_part() -> list[str]:
    """Return the part of the page on the values that fields of messages may have."""
    lines = ["## Values in messages between processes", "", "| name | value | meaning |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {value} | {said} |" for name, value, said in constants(process_messages) if " -> " not in said
    ]
    return [*lines, ""]


def class_rows(module: ModuleType) -> list[Row]:
    """Return the messages that are classes."""
    return [class_row(name, kind) for name, kind in vars(module).items() if is_kind(kind)]


def class_row(name: str, kind: Any) -> Row:
    """Return what the page says of one class."""
    types = {field: getattr(given, "__forward_arg__", given) for field, given in kind.__annotations__.items()}
    fields = ", ".join(f"`{field}: {types[field]}`" for field in kind._fields)
    return number_of(kind), name, way_of(kind), fields, " ".join((inspect.getdoc(kind) or "").split())


def section(title: str, module: ModuleType) -> list[str]:
    """Return the part of the page on the messages of one module."""
    lines = [f"## {title}", "", inspect.getdoc(module) or "", ""]
    lines += ["| number | name | from and to | fields | meaning |", "|---|---|---|---|---|"]
    for row in sorted(tuple_rows(module) + class_rows(module)):
        number, name, *rest = (str(cell).replace("|", "\\|") for cell in row)
        lines.append(f"| {number} | `{name}` | {' | '.join(rest)} |")
    return [*lines, ""]


def page() -> str:
    """Return the whole page."""
    lines = [INTRODUCTION]
    for title, module in SECTIONS.items():
        lines += section(title, module)
        if module is process_messages:
            lines += values_part()
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
