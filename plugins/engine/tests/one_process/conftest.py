"""A runtime whose calls run when a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kernel.runtime.current import set_runtime
from kernel.runtime.definitions import CallOptions
from kernel_engine.one_process.calls import Call
from kernel_engine.one_process.runtime import OneProcessRuntime


class ByHand(OneProcessRuntime):
    """Submits calls, and runs none."""

    engine = "by-hand"

    def call(self, *args: Any, actor: Any = None, retries: int = 0, **options: Any) -> Call:
        """Return a new call of a function "work"."""
        call = Call(self, CallOptions(name="work", **options), "work", retries, args, {}, actor)
        self.begin(call)
        return call


@pytest.fixture
def runtime() -> Iterator[ByHand]:
    runtime = ByHand("mine")
    set_runtime(runtime)  # type: ignore[arg-type]
    try:
        yield runtime
    finally:
        runtime.shutdown()
        set_runtime(None)
