"""The data loop: one event loop in a thread of its own, for all requests of a process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

import uvloop

from kernel_serve.logs import logger

_log = logger()
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_process = 0


def data_loop() -> asyncio.AbstractEventLoop:
    """Return the data loop of this process; the first call starts it."""
    global _loop, _process
    loop = _loop
    if loop is not None and _process == os.getpid():
        return loop
    with _lock:
        if _loop is None or _process != os.getpid():
            loop = uvloop.new_event_loop()
            threading.Thread(target=_run, args=(loop,), name="serve data loop", daemon=True).start()
            _loop, _process = loop, os.getpid()
        return _loop


def in_data_loop() -> bool:
    """Return whether the caller runs on the data loop."""
    try:
        return asyncio.get_running_loop() is _loop
    except RuntimeError:
        return False


def on_data_loop(function: Callable[[], None]) -> None:
    """Call `function` on the data loop: now, if this is it, else soon."""
    if in_data_loop():
        function()
    else:
        data_loop().call_soon_threadsafe(function)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop.

    An exit such as SystemExit in a task or callback ends that alone: the loop has all requests of the process.
    """
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
            return
        except (SystemExit, KeyboardInterrupt):
            _log.exception("a task on the loop of all requests tried to end its process, which goes on")
