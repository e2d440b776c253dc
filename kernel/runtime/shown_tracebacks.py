"""Choose the entries of a traceback that users see: those of their own code, unless the kernel is at fault."""

from __future__ import annotations

import opcode
from types import TracebackType
from typing import TypeVar

from kernel.logs import shows_own_lines
from kernel.mounts import is_library
from kernel.runtime.critical_sections import is_from_outside
from kernel.runtime.current import find_runtime
from kernel.runtime.hints import hint_of
from kernel.runtime.remote_traceback import is_group, is_hidden, is_pythons, strung_together
from kernel_spec.errors import InternalError, KernelError

_RAISE = opcode.opmap["RAISE_VARARGS"]

_E = TypeVar("_E", bound=BaseException)


def for_users(error: _E) -> _E:
    """Take what users are not to see out of the traceback of `error` and return it, for `raise for_users(error)`."""
    return error.with_traceback(users_part(error, error.__traceback__))


def users_part(error: BaseException, traceback: TracebackType | None) -> TracebackType | None:
    """Return the entries of a traceback of `error` that users see; None if there are none.

    All entries are shown when lines of the kernel are wanted (`KERNEL_TRACEBACK=1`, `logging_level="debug"`), and when
    the kernel is at fault. A Ctrl-C says nothing about the code that it interrupts: lines of a library or of Python
    that merely wait are left out, with the kernel's lines that have called them.
    """
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    if not entries or _are_all_wanted(error, entries):
        return entries[0] if entries else None
    is_ctrl_c = isinstance(error, KeyboardInterrupt)
    kept = []
    below_ours = False
    for entry in entries:
        if is_hidden(entry) or (is_ctrl_c and is_library(entry.tb_frame.f_globals.get("__name__"))):
            below_ours = True
        elif not (is_ctrl_c and below_ours and is_pythons(entry)):
            below_ours = False
            kept.append(entry)
    return strung_together(kept)


def _are_all_wanted(error: BaseException, entries: list[TracebackType]) -> bool:
    if shows_own_lines():
        return True
    if isinstance(error, KernelError):
        return isinstance(error, InternalError)
    if isinstance(error, KeyboardInterrupt) or is_from_outside(error):
        return False
    for entry in reversed(entries):
        if is_hidden(entry):  # whatever we raise ourselves has a message for users
            return entry is not entries[-1] or not _was_raised_by(entry)
        if not is_pythons(entry):
            return False
    return False


def _was_raised_by(entry: TracebackType) -> bool:
    """Whether a `raise` statement in this line made the error, rather than a failing operation."""
    code = entry.tb_frame.f_code.co_code
    return 0 <= entry.tb_lasti < len(code) and code[entry.tb_lasti] == _RAISE


def _has_users_lines(error: BaseException | None) -> bool:
    entry = error.__traceback__ if error is not None else None
    while entry is not None and is_pythons(entry):
        entry = entry.tb_next
    return entry is not None


class UsersLines:
    """While entered, `error` and all errors that it came from have the tracebacks that users are to see.

    And a note says what to do, where we know it.
    """

    def __init__(self, error: BaseException) -> None:
        self._error = error
        self._before: list[tuple[BaseException, TracebackType | None, bool]] = []
        self._notes: list[tuple[BaseException, list[str] | None]] = []

    def __enter__(self) -> None:
        waiting: list[BaseException | None] = [self._error]
        seen = set()
        while waiting:
            error = waiting.pop()
            if error is None or id(error) in seen:
                continue
            seen.add(id(error))
            self._before.append((error, error.__traceback__, error.__suppress_context__))
            shown = users_part(error, error.__traceback__)
            # If no line is the user's, the kernel's lines are better than none. A Ctrl-C is shown by its name only.
            if shown is not None or isinstance(error, KeyboardInterrupt):
                error.__traceback__ = shown
            self._note(error)
            waiting += [error.__cause__, error.__context__]
            if is_group(error):
                waiting += error.exceptions  # type: ignore[attr-defined]
        for error, *_ in self._before:
            if isinstance(error, KeyboardInterrupt) and not _has_users_lines(error.__context__):
                error.__suppress_context__ = True  # what it came from was amid a step of ours

    def _note(self, error: BaseException) -> None:
        if find_runtime() is None:
            return
        try:
            hint = hint_of(error, str(error))
            if hint is not None:
                notes = getattr(error, "__notes__", None)
                error.__notes__ = [*(notes or ()), hint]  # type: ignore[attr-defined]
                self._notes.append((error, notes))
        except Exception:
            return  # an error that can't be printed, or has no room for notes, is not to hide another

    def __exit__(self, *exception: object) -> None:
        for error, notes in self._notes:
            if notes is None:
                del error.__notes__  # type: ignore[attr-defined]
            else:
                error.__notes__ = notes  # type: ignore[attr-defined]
        for error, traceback, suppress in self._before:
            error.__traceback__ = traceback
            error.__suppress_context__ = suppress
