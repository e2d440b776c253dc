"""In which order the news of a large result leave the worker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernel.runtime.call_runner import CallRunner
from kernel.runtime.serialization import ValueSerializer


@pytest.mark.parametrize("returns", [1, 2])
def test_the_store_hears_of_a_large_result_before_its_owner(returns: int) -> None:
    happened: list[str] = []
    io = SimpleNamespace(
        agent=SimpleNamespace(flush=lambda: happened.append("agent flushed")),
        send=lambda connection, message: happened.append("told the owner"),
    )
    store = SimpleNamespace(write=lambda *arguments: happened.append("sealed") or 200_000)
    runtime: Any = SimpleNamespace(io=io, store=store, serializer=ValueSerializer())
    runner = CallRunner(runtime)
    connection: Any = SimpleNamespace(info=SimpleNamespace(id=b"owner"))
    large = bytes(200_000)
    runner.send_result(connection, b"t" * 16, returns, large if returns == 1 else [large] * returns, "f")
    assert happened == ["sealed", "agent flushed"] * returns + ["told the owner"]
