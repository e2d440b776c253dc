"""No two words share a number: who hears one would take it for the other."""

from __future__ import annotations

from collections import Counter
from types import ModuleType

import pytest
from kernel_network_tcp import agent_messages
from kernel_network_tcp.relay import relay_messages

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import is_kind, number_of
from kernel_processes.node import template_messages
from kernel_processes.protocol import head_messages

CODES = {
    "USER_ERROR", "CANCELLED", "SYSTEM_ERROR", "TAKEN", "DIED", "CROWDED_OUT", "OUT_OF_MEMORY", "OVER_QUOTA",
    "LOST", 
}  # fmt: skip
"""Numbers inside messages, not of messages."""


def numbers(module: ModuleType) -> dict[str, int]:
    """Return the number of each message of a module, by the name of its number or class."""
    tuples = {name: value for name, value in vars(module).items() if name.isupper() and type(value) is int}
    return tuples | {name: number_of(value) for name, value in vars(module).items() if is_kind(value)}


MODULES = [agent_messages, head_messages, op, relay_messages, template_messages]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_word_has_a_number_of_its_own(module: ModuleType) -> None:
    found = {name: number for name, number in numbers(module).items() if name not in CODES}
    assert len(found) > 1
    shared = [number for number, count in Counter(found.values()).items() if count > 1]
    assert [name for name, number in found.items() if number in shared] == []
