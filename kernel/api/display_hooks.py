"""Show uncaught errors with the lines of the user's program only, by Python's own hooks.

`sys.excepthook` shows errors of programs and of Python's prompt, `threading.excepthook` errors of threads, and a
formatter of IPython errors of cells. A hook that was installed before is still called; a hook that is installed later
replaces these.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

_OWN = ("kernel.", "kernel_engine.", "kernel_local_mode.", "kernel_processes.", "kernel_spec.")


def _concerns_us(error: BaseException | None) -> bool:
    """Return whether an error may have lines of the kernel. If not, no module is imported to show it.

    An import runs code as `exec` does, after which Python no longer exits with the status of a Ctrl-C.
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
    """Calls `before`, which shows an error, with the user's part of its traceback."""

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
    """The hook for threads. `arguments` converts a tuple of four values into the argument of `before`."""

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
    """The hook for cells of a notebook and lines of IPython, whose formatter reads the traceback itself."""

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
    """Install the hooks; this imports nothing, so it takes no noticeable time.

    Called by `import kernel`, and again when a session begins, because IPython or `threading` may have been imported in
    between.
    """
    if not isinstance(sys.excepthook, _ProgramHook):
        sys.excepthook = _ProgramHook(sys.excepthook)
    threading: Any = sys.modules.get("threading")  # not imported: there is no thread yet; a session imports it
    if threading is not None and not isinstance(threading.excepthook, _ThreadHook):
        threading.excepthook = _ThreadHook(threading.excepthook, threading.ExceptHookArgs)
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    formatter = getattr(shell, "InteractiveTB", None)
    if formatter is not None and not isinstance(formatter.structured_traceback, _CellHook):
        formatter.structured_traceback = _CellHook(formatter.structured_traceback)
