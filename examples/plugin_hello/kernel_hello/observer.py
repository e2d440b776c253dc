"""An observer that greets every worker, once."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kernel_spec.observers import WORKER, LifecycleEvent

log = logging.getLogger(__name__)


class Greeter:
    """Logs a greeting for each worker that it hears of for the first time."""

    name = "hello"

    def __init__(self) -> None:
        self.greeted: set[str] = set()

    def observe(self, events: Sequence[LifecycleEvent]) -> None:
        """Greet the new ones. Called from the agent's loop, so it returns quickly."""
        for event in events:
            if event.kind == WORKER and event.id not in self.greeted:
                self.greeted.add(event.id)
                log.info("hello, worker %s", event.id)
