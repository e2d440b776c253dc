"""What workers wrote last: waited for when a program leaves, and missed aloud."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernel_processes.runtime.last_output import await_last_output
from kernel_spec.errors import SessionEndedError


def leave(answer: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return what is logged when an agent answers so."""
    logged: list[tuple[str, dict[str, Any]]] = []

    def call_agent(method: str, seconds: float, timeout: float) -> Any:
        assert (method, seconds, timeout) == ("show_output", 8.0, 10.0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    log = SimpleNamespace(warning=lambda text, **fields: logged.append((text, fields)))
    process: Any = SimpleNamespace(call_agent=call_agent, log=log)
    await_last_output(process, 10.0)
    return logged


@pytest.mark.parametrize("answer", [[], SessionEndedError("it was asked to stop")])
def test_where_all_was_passed_on_nothing_is_said(answer: Any) -> None:
    assert leave(answer) == []


def test_nodes_that_did_not_answer_are_named() -> None:
    text = "what workers wrote last may be missing here: nodes did not answer in time"
    assert leave(["0a", "0b"]) == [(text, {"nodes": "0a, 0b", "seconds": 8.0})]


def test_an_agent_that_did_not_answer_is_said() -> None:
    text = "what workers wrote last may be missing here: the node agent did not answer in time"
    assert leave(TimeoutError("no answer")) == [(text, {"seconds": 10.0})]
