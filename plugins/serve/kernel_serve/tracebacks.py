"""Tracebacks of errors of user code, from its first line on: without the frames of Serve, and those that lead to it."""

from __future__ import annotations

import functools
import os
import sysconfig
import traceback
from types import TracebackType
from typing import TypeVar

import kernel
import kernel_spec
from kernel_serve.errors import ServeError
from kernel_spec.errors import TaskError

_LIMIT = 20_000
_OURS = tuple(
    os.path.dirname(os.path.abspath(file)) + os.sep for file in (kernel.__file__, kernel_spec.__file__, __file__)
)
_EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "examples", "")
_STANDARD = (sysconfig.get_paths()["stdlib"] + os.sep, "<frozen ")
_INSTALLED = tuple(f"{os.sep}{each}{os.sep}" for each in ("site-packages", "dist-packages"))
_FRAMEWORKS = tuple(
    f"{packages}{name}{os.sep}" for packages in _INSTALLED for name in ("starlette", "fastapi", "anyio")
)

E = TypeVar("E", bound=BaseException)


def user_traceback(error: BaseException) -> str:
    """Return an error with its traceback and causes, as text of 20 kB at most."""
    told = traceback.TracebackException.from_exception(error)
    if isinstance(error, TaskError):
        frames = told.stack  # of the process where it was raised
        told = traceback.TracebackException.from_exception(error.cause or _stand_in(error))
        told.stack = frames
    _leave_out(told, isinstance(error, ServeError))
    text = "".join(told.format()).strip()
    return text if len(text) <= _LIMIT else text[: _LIMIT // 4] + "\n  ...\n" + text[-_LIMIT * 3 // 4 :]


def told_from_the_user(error: E) -> E:
    """Remove such frames from an error and its causes, and return it: for the `exc_info` of a log record."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        each.__traceback__ = _shortened(each)
        each = each.__cause__ or each.__context__
    return error


def _leave_out(told: traceback.TracebackException, is_ours: bool = False) -> None:
    kept = _kept([frame.filename for frame in told.stack], is_ours)
    told.stack = traceback.StackSummary.from_list([told.stack[index] for index in kept])
    for other in (told.__cause__, told.__context__):
        if other is not None:
            _leave_out(other)


def _stand_in(error: TaskError) -> BaseException:
    """Return an error that stands for one whose class can't be loaded here.

    It has the same message, without the name of Serve's method that raised it.
    """
    found: BaseException = type(type(error).__name__, (Exception,), {"__module__": "builtins"})(error.message)
    found.__cause__, found.__context__ = error.__cause__, error.__context__
    found.__suppress_context__ = error.__suppress_context__
    there = f"  in {error.function_name}("
    found.__dict__["__notes__"] = [each for each in getattr(error, "__notes__", ()) if not each.startswith(there)]
    return found


def _shortened(error: BaseException) -> TracebackType | None:
    entries = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    kept = _kept([each.tb_frame.f_code.co_filename for each in entries], isinstance(error, ServeError))
    shortened = None
    for index in reversed(kept):
        found = entries[index]
        shortened = TracebackType(shortened, found.tb_frame, found.tb_lasti, found.tb_lineno)
    return shortened


def _kept(files: list[str], is_ours: bool) -> list[int]:
    """Return the indices of the frames in `files` that help users, outermost first.

    Where no frame is the user's, these are all of them, so that faults of Serve can be found; or none, if the error
    itself says everything (`is_ours`).
    """
    first = next((index for index, file in enumerate(files) if not _leads_there(file)), None)
    if first is None:
        return [] if is_ours else list(range(len(files)))
    return [index for index in range(first, len(files)) if not _is_ours(files[index])]


def _is_ours(file: str) -> bool:
    return file.startswith(_OURS) and not file.startswith(_EXAMPLES)


@functools.lru_cache(maxsize=1024)
def _leads_there(file: str) -> bool:
    """Return whether a file is Serve's, the kernel's, a web framework's or the standard library's."""
    if _is_ours(file) or any(each in file for each in _FRAMEWORKS):
        return True
    return file.startswith(_STANDARD) and not any(each in file for each in _INSTALLED)
