"""Gather the metrics of all of Serve: ask every process, and take those that answer in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kernel_spec.errors import KernelError
from kernel_spec.metrics import GAUGE, FamilySnapshot, MetricsSnapshot

DEADLINE_SECONDS = 1.0
_SOURCES_SHARE = 0.4
"""The share of the time that the controller has to say which processes there are."""


class Gatherer:
    """Asks the controller which processes there are, and all of them for their snapshots.

    `controller()` returns its handle. While it does not answer, the processes that it named last are asked. Used on one
    event loop; a call during a round gets the result of that round.
    """

    def __init__(
        self, controller: Callable[[], Awaitable[Any]], own: Callable[[], MetricsSnapshot] | None = None
    ) -> None:
        self._controller = controller
        self._own = own
        self._known: Mapping[str, Any] = {}
        self._round: asyncio.Task[list[MetricsSnapshot]] | None = None

    async def gather(self) -> list[MetricsSnapshot]:
        """Return the snapshots of all processes that answered within a second, and one with the names of the others."""
        if self._round is None or self._round.done():
            self._round = asyncio.get_running_loop().create_task(self._gather())
        return await asyncio.shield(self._round)

    async def _gather(self) -> list[MetricsSnapshot]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_SECONDS
        found: dict[str, MetricsSnapshot] = {}
        if self._own is not None:
            own = self._own()
            found[own.origin] = own
        silent = []
        try:
            await asyncio.wait_for(self._ask_for_sources(found), DEADLINE_SECONDS * _SOURCES_SHARE)
        except (KernelError, asyncio.TimeoutError, TimeoutError):
            silent.append("controller")
        asked: dict[asyncio.Future[Any], str] = {}
        for name, actor in self._known.items():
            try:
                asked[asyncio.ensure_future(actor.metrics.remote().as_future())] = name
            except KernelError:
                silent.append(name)
        if asked:
            await asyncio.wait(asked, timeout=max(deadline - loop.time(), 0.0))
        for future, name in asked.items():
            if not future.done() or future.cancelled() or future.exception() is not None:
                future.add_done_callback(_forget)
                silent.append(name)
            else:
                snapshot = future.result()
                found.setdefault(snapshot.origin, snapshot)
        return [*found.values(), _account(len(found), silent)]

    async def _ask_for_sources(self, found: dict[str, MetricsSnapshot]) -> None:
        controller = await self._controller()
        snapshots, self._known = await controller.metrics_sources.remote()
        found.update({snapshot.origin: snapshot for snapshot in snapshots})


def _account(answered: int, silent: list[str]) -> MetricsSnapshot:
    samples: list[tuple[tuple[str, ...], Any]] = [(("true",), answered), (("false",), len(silent))]
    sources = FamilySnapshot(
        "serve_metrics_sources",
        GAUGE,
        "Processes whose numbers are in this answer, and those that were asked and are not.",
        ("answered",),
        (),
        samples,
    )
    names = FamilySnapshot(
        "serve_metrics_silent",
        GAUGE,
        "Processes that did not answer within a second.",
        ("source",),
        (),
        [((name,), 1) for name in sorted(silent)],
    )
    return MetricsSnapshot("account", [sources, names])


def _forget(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
