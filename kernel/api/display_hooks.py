"""Show uncaught errors with the lines of the user's program only, by Python's own hooks.

`sys.excepthook` shows those of programs and of Python's prompt, `threading.excepthook` those of threads, and a
formatter of IPython those of cells. Whoever has set one of them before is still called, and whoever sets one later
decides what is shown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

_OWN = ("kernel.", "kernel_engine.", "kernel_local_mode.", "kernel_processes.", "kernel_spec.")


def _concerns_us(error: BaseException | None) -> bool:
    """Say whether an error may have lines of the kernel. Where it can't, nothing is loaded to look.

    To load modules may run code as `exec` does, after which Python no longer ends as a Ctrl-C ends programs.
    """
    if "kernel.runtime.shown_tracebacks" in sys.modules:
        return True
    entry = error.__traceback__ if error is not None else None
    while entry is not None:
        if str(entry.tb_frame.f_globals.get("__name__")).startswith(_OWN):
            return True
        entry = entry.tb_next
    return False


class _ProgramHook:
    """Calls `before`, which shows an error, with what users are to see of it."""

    def __init__(self, before: Callable[..., Any]) -> None:
        self.before = before

    def __call__(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if not _concerns_us(error):
            self.before(kind, error, traceback)
            return
        from kernel.runtime.shown_tracebacks import UsersLines, users_part

        if traceback is not error.__traceback__:
            traceback = users_part(error, traceback) or traceback
            self.before(kind, error, traceback)
            return
        with UsersLines(error):
            self.before(kind, error, error.__traceback__)


class _ThreadHook:
    """The same for a thread. `arguments` makes of four values what `before` takes."""

    def __init__(self, before: Callable[..., Any], arguments: Callable[[Any], Any]) -> None:
        self.before = before
        self._arguments = arguments

    def __call__(self, failure: Any) -> None:
        error = failure.exc_value
        if error is None or not _concerns_us(error):
            self.before(failure)
            return
        from kernel.runtime.shown_tracebacks import UsersLines

        with UsersLines(error):
            shown = (failure.exc_type, error, error.__traceback__, failure.thread)
            self.before(self._arguments(shown))


class _CellHook:
    """The same for cells of a notebook and lines of IPython, whose formatter takes an error apart itself."""

    def __init__(self, before: Callable[..., Any]) -> None:
        self.before = before

    def __call__(self, kind: Any, error: Any, traceback: Any = None, *context: Any, **options: Any) -> Any:
        if not isinstance(error, BaseException) or not isinstance(traceback, TracebackType) or not _concerns_us(error):
            return self.before(kind, error, traceback, *context, **options)
        from kernel.runtime.shown_tracebacks import UsersLines, users_part

        shown = users_part(error, traceback) or traceback
        with UsersLines(error):
            return self.before(kind, error, shown, *context, **options)


def install() -> None:
    """Have errors shown so from now on, which costs nothing until there is one.

    Done by `import kernel`, and again when a session begins: IPython, and threads, may have come later.
    """
    if not isinstance(sys.excepthook, _ProgramHook):
        sys.excepthook = _ProgramHook(sys.excepthook)
    threading: Any = sys.modules.get("threading")  # without it there is no thread yet; a session has it
    if threading is not None and not isinstance(threading.excepthook, _ThreadHook):
        threading.excepthook = _ThreadHook(threading.excepthook, threading.ExceptHookArgs)
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    formatter = getattr(shell, "InteractiveTB", None)
    if formatter is not None and not isinstance(formatter.structured_traceback, _CellHook):
        formatter.structured_traceback = _CellHook(formatter.structured_traceback)
