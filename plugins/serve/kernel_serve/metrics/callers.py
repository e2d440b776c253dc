"""What programs, tasks and actors count that call handles: nobody asks them, so they tell it with their reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kernel_serve.metrics.registry import REGISTRY, MetricRegistry, Picture
from kernel_serve.metrics.routers import watch_router

if TYPE_CHECKING:
    from kernel_serve.routing.dispatcher import Dispatcher

TELL_SECONDS = 10.0
"""How often a process tells its numbers when nothing has changed."""
KEPT_SECONDS = 3 * TELL_SECONDS
"""How long the controller believes what it was told: a process that says nothing more has ended."""


class CallerMetrics:
    """The numbers of this process's router, named `name`, for as long as nobody asks the process itself."""

    def __init__(self, name: str, dispatchers: Callable[[], Mapping[str, Dispatcher]]) -> None:
        self._registry = MetricRegistry()
        watch_router(self._registry, name, dispatchers)

    def picture(self) -> Picture | None:
        """Return how they are now; None in a part of Serve, which is asked."""
        return None if REGISTRY.is_asked else self._registry.picture()


class CallerPictures:
    """What the processes told that nobody asks, the latest of each."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[float, Picture]] = {}

    def take(self, now: float, picture: Picture) -> None:
        """Remember what a process tells."""
        self._latest[picture.origin] = (now, picture)

    def pictures(self, now: float) -> list[Picture]:
        """Return those of processes that are there still, as far as can be known."""
        self._latest = {origin: told for origin, told in self._latest.items() if now - told[0] <= KEPT_SECONDS}
        return [picture for _, picture in self._latest.values()]
