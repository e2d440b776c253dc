"""The latest value of each topic, for routers and proxies that ask for those they do not know yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

PATIENCE_SECONDS = 30.0


class ControllerTopics:
    """Values by topic. `life` makes versions differ from those of another process of the controller.

    `missing` returns the value of a topic that was never published.
    """

    def __init__(self, life: str, missing: Callable[[str], Any]) -> None:
        self._life = life
        self._missing = missing
        self._values: dict[str, tuple[str, Any]] = {}
        self._number = 0
        self._changed = asyncio.Event()

    def publish(self, topic: str, value: Any) -> None:
        """Publish a value, and wake everyone who watches the topic."""
        self._number += 1
        self._values[topic] = (f"{self._life}:{self._number}", value)
        self._wake()

    def withdraw(self, topic: str) -> None:
        """Forget the value of a topic."""
        if self._values.pop(topic, None) is not None:
            self._wake()

    def versions(self) -> dict[str, str]:
        """Return the version of each published topic."""
        return {topic: version for topic, (version, _) in self._values.items()}

    async def watch(self, known: Mapping[str, str | None], patience: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """Return (version, value) of each topic whose version differs from the known one, once there is one.

        Returns {} after `patience` seconds, so that the call of a watcher that has ended does not stay for ever.
        """
        deadline = asyncio.get_running_loop().time() + patience
        while True:
            news = {topic: found for topic, version in known.items() if (found := self._of(topic))[0] != version}
            left = deadline - asyncio.get_running_loop().time()
            if news or left <= 0:
                return news
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except (asyncio.TimeoutError, TimeoutError):
                return {}

    def _of(self, topic: str) -> tuple[str, Any]:
        found = self._values.get(topic)
        return found if found is not None else (f"{self._life}:0", self._missing(topic))

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
