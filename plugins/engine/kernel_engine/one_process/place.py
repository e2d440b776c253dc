"""Tell the code of a call where it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from kernel.runtime.execution_context import Execution, current_execution


class CallPlace(Protocol):
    """Describes the surroundings of a call: at least which call it is."""

    def occupied(self, execution: Execution) -> AbstractContextManager[None]:
        """Run a block there."""


class PlainPlace:
    """Describes a call without surroundings of its own."""

    @contextmanager
    def occupied(self, execution: Execution) -> Iterator[None]:
        """Run a block as this call."""
        running = current_execution.set(execution)
        try:
            yield
        finally:
            current_execution.reset(running)
