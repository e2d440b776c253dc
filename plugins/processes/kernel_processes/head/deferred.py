"""An answer that will be given later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Deferred:
    """Stands for an answer that will be given later. A `KernelError` as the answer is raised in the asking process."""

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
        """Call `then(answer)` now or when the answer is given."""
        self._then = then
        if self._done:
            then(self._value)
