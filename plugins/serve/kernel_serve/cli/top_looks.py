"""Look at Serve again and again, and show the result: on a terminal, as lines, or in a picture."""

from __future__ import annotations

import asyncio
import io
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import click
from rich.console import Console
from rich.live import Live

from kernel_serve.cli.top_numbers import View, view
from kernel_serve.cli.top_view import plain, rendered
from kernel_serve.metrics.changes import Numbers
from kernel_serve.metrics.gathering import Gatherer
from kernel_serve.routing.router import find_controller
from kernel_spec.errors import KernelError

_PATIENCE_SECONDS = 5.0
_WIDTH = 118


async def show(interval: float, once: bool, svg: str | None) -> None:
    """Show Serve every `interval` seconds, until the task is cancelled.

    With `once`, or as a picture in the file `svg`, it is shown once.
    """
    looks = Looks()
    await looks.next()
    if svg is not None:
        await asyncio.sleep(interval)
        _draw(await looks.next(), svg)
    elif once or not sys.stdout.isatty():
        while True:
            await asyncio.sleep(interval)
            click.echo(plain(await looks.next(), _now()))
            if once:
                return
            click.echo()
    else:
        with Live(screen=True, auto_refresh=False) as live:
            while True:
                await asyncio.sleep(interval)
                live.update(rendered(await looks.next(), _now()), refresh=True)


class Looks:
    """Looks at Serve. Each look has what happened since the one before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._find: Callable[[], Awaitable[Any]] = find_controller
        self._gatherer = Gatherer(find_controller)
        self._status: Mapping[str, Any] | None = None
        self._before = Numbers(())
        self._at = clock()

    async def next(self) -> View:
        """Return the next view. Raises NotServingError when Serve does not run.

        While the controller can't be reached, applications are shown as they were.
        """
        try:
            controller: Any = await self._find()
            self._status = await asyncio.wait_for(controller.status.remote().as_future(), _PATIENCE_SECONDS)
        except (KernelError, asyncio.TimeoutError, TimeoutError):
            if self._status is None:
                raise
        assert self._status is not None
        now, at = Numbers(await self._gatherer.gather()), self._clock()
        before, since = self._before, self._at
        self._before, self._at = now, at
        return view(self._status, before, now, max(at - since, 1e-3))


def _draw(view: View, path: str) -> None:
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(rendered(view, _now()))
    console.save_svg(path, title="kernel serve top")


def _now() -> str:
    return time.strftime("%H:%M:%S")
