"""An answer that is not there yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Deferred:
    """An answer that will be there later. A `KernelError` as the answer is raised where it was asked for."""

    def __init__(self) -> None:
        self._value: Any = None
        self._done = False
        self._then: Callable[[Any], None] | None = None

    def set(self, value: Any) -> None:
        """Give the answer."""
        self._value, self._done = value, True
        if self._then is not None:
            self._then(value)

    def when_done(self, then: Callable[[Any], None]) -> None:
        """Call `then(answer)` now or when it is there."""
        self._then = then
        if self._done:
            then(self._value)
