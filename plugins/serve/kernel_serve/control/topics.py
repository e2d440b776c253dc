"""What routers and proxies are told: the latest value of each topic, to those who ask for what they do not know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

PATIENCE_SECONDS = 30.0


class ControllerTopics:
    """Values by topic. `life` makes versions differ from those of another life of the controller.

    `missing` makes the value of a topic of which nothing was published.
    """

    def __init__(self, life: str, missing: Callable[[str], Any]) -> None:
        self._life = life
        self._missing = missing
        self._values: dict[str, tuple[str, Any]] = {}
        self._number = 0
        self._changed = asyncio.Event()

    def publish(self, topic: str, value: Any) -> None:
        """Tell everybody who listens."""
        self._number += 1
        self._values[topic] = (f"{self._life}:{self._number}", value)
        self._wake()

    def withdraw(self, topic: str) -> None:
        """Nothing is known of a topic any more."""
        if self._values.pop(topic, None) is not None:
            self._wake()

    def versions(self) -> dict[str, str]:
        """Return the version of each topic of which something was published."""
        return {topic: version for topic, (version, _) in self._values.items()}

    async def watch(self, known: Mapping[str, str | None], patience: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """Return (version, value) of each topic whose version is not the known one, once there is any.

        Return nothing after `patience` seconds, so that an asker who is gone is not waited for for ever.
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
