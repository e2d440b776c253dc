"""How the bars of workers come to the program that draws them: an actor that keeps the latest state of each."""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from typing import Any

import kernel
from kernel.exceptions import ActorNotFoundError, KernelError
from kernel_parallel.progress.screen import screen
from kernel_parallel.progress.state import BarState

_POLL_SECONDS = 2.0
_PAUSE_SECONDS = 0.05
_FINISH_SECONDS = 1.0
_LOOK_AGAIN_SECONDS = 2.0


class Board:
    """The actor's methods. Workers report, the program asks for what has changed."""

    def __init__(self) -> None:
        self._news: dict[str, BarState] = {}
        self._changed = asyncio.Event()
        self._reports = 0

    async def report(self, state: BarState) -> None:
        """Hear how a bar is."""
        self._reports += 1
        self._news[state.id] = state
        self._changed.set()

    async def reports(self) -> int:
        """Return how many reports there were."""
        return self._reports

    async def changes(self, seconds: float) -> tuple[int, list[BarState]]:
        """Return how many reports there were, and the bars that have changed since the last question.

        Wait up to so many seconds for one.
        """
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except asyncio.TimeoutError:
            return self._reports, []
        self._changed.clear()
        news, self._news = list(self._news.values()), {}
        return self._reports, news


def board_name() -> str:
    """Return the name of this job's board."""
    return f"kernel.parallel.progress/{kernel.get_runtime_context().get_job_id()}"


class ProgressListener:
    """A thread of the program that draws the bars of its workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._board: Any = None
        self._name = ""
        self._shown = 0
        self._progress = threading.Condition()

    def start(self) -> None:
        """Begin to listen, if that has not begun in this session."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive() and self._name == board_name():
                return
            self._name = board_name()
            self._board = kernel.remote(Board).options(name=self._name, get_if_exists=True).remote()
            self._shown = 0
            self._thread = threading.Thread(target=self._run, args=(self._board,), name="progress", daemon=True)
            self._thread.start()
            atexit.unregister(self.finish)
            atexit.register(self.finish)  # after the session's own handler, and so called before it

    def finish(self) -> None:
        """Return when what workers have reported until now is drawn, or after a moment."""
        if self._thread is None or not self._thread.is_alive():
            return
        try:
            time.sleep(_PAUSE_SECONDS)  # the last reports may be on their way still
            reports = kernel.get(self._board.reports.remote(), timeout=_FINISH_SECONDS)
        except KernelError:
            return
        with self._progress:
            self._progress.wait_for(lambda: self._shown >= reports, _FINISH_SECONDS)

    def _run(self, board: Any) -> None:
        try:
            while True:
                reports, states = kernel.get(board.changes.remote(_POLL_SECONDS))
                screen.show(states)
                with self._progress:
                    self._shown = reports
                    self._progress.notify_all()
                time.sleep(_PAUSE_SECONDS)
        except KernelError:
            return  # the session ended


class Reporter:
    """Reports the bars of this worker, to the board if the program listens and else as lines of output."""

    def __init__(self) -> None:
        self._board: Any = None
        self._name = ""
        self._look_at = 0.0

    def report(self, state: BarState) -> None:
        """Send a state on its way; nobody waits for it."""
        board = self._found()
        if board is None:
            screen.show([state])
            return
        try:
            board.report.remote(state)
        except KernelError:
            self._board = None

    def _found(self) -> Any:
        """Return the board of this job; whether there is one is asked every few seconds at most."""
        name = board_name()
        now = time.monotonic()
        if name != self._name or (self._board is None and now >= self._look_at):
            self._name, self._look_at = name, now + _LOOK_AGAIN_SECONDS
            try:
                self._board = kernel.get_actor(name)
            except ActorNotFoundError:
                self._board = None
        return self._board


listener = ProgressListener()
reporter = Reporter()


def in_worker() -> bool:
    """Return whether this code runs in a task or an actor, whose bars the program draws."""
    if not kernel.is_initialized():
        return False
    context = kernel.get_runtime_context()
    return context.get_task_id() is not None or context.get_actor_id() is not None


def show() -> None:
    """Draw the bars of tasks and actors in this program, at the bottom of its terminal.

    Bars of the program's own do that, too. Where nobody draws them, bars of workers are lines of their output. Raises
    NotInitializedError before `kernel.init()`.
    """
    listener.start()
