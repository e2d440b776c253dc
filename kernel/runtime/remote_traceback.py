"""Tracebacks that cross processes: the user's frames as plain tuples, and real traceback objects made of them.

A frame can't travel, but a traceback entry needs little of one: a code object that has the file and the function's
name, and a line number. So tiny code objects are run under the remote name, and their frames are strung together.
Debuggers, loggers and `traceback` then treat remote lines like local ones.
"""

from __future__ import annotations

import linecache
import os
import sys
from functools import lru_cache
from types import CodeType, FunctionType, TracebackType
from typing import SupportsIndex, TypeVar

import kernel_spec

Frame = tuple[str, int, str, str, int]
"""File, line number, function, source line (stripped, "" if unknown), first line of the function."""

_FRAME_LIMIT = 100
_FIRST_FRAMES = 40

_E = TypeVar("_E", bound=BaseException)


def _folder(file: str) -> str:
    return os.path.dirname(os.path.abspath(file)) + os.sep


_internal = (os.path.dirname(_folder(__file__)[:-1]) + os.sep, _folder(kernel_spec.__file__))
_PYTHONS = (os.path.dirname(os.__file__) + os.sep, "<frozen ")
_INSTALLED = tuple(_PYTHONS[0] + name + os.sep for name in ("site-packages", "dist-packages"))


def hide_all(folder: str) -> None:
    """Count the files in a folder as the kernel's own: it is that of an engine."""
    global _internal
    inside = os.path.join(folder, "")
    if inside not in _internal:
        _internal = (*_internal, inside)


def is_internal(filename: str) -> bool:
    """Return whether a file belongs to the kernel itself, so that its lines do not help users."""
    return filename.startswith(_internal)


def frames_of(traceback: TracebackType | None) -> list[Frame]:
    """Return the user's frames, outermost first; all frames when none is the user's. At most 100.

    Modules with `__tracebackhide__ = True` in them, which others use as well, are as little the user's as our own.
    """
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    called_by_us = bool(entries) and is_hidden(entries[0])
    entries = [entry for entry in entries if not is_hidden(entry)] or entries
    if called_by_us:  # by way of a pool's thread, it may be
        entries = entries[next((at for at, entry in enumerate(entries) if not is_pythons(entry)), 0) :]
    if len(entries) > _FRAME_LIMIT:
        left_out = len(entries) - _FRAME_LIMIT
        entries = entries[:_FIRST_FRAMES] + entries[_FIRST_FRAMES - _FRAME_LIMIT :]
        frames = [_frame_of(entry) for entry in entries]
        frames.insert(_FIRST_FRAMES, ("...", 0, f"{left_out} more frames", "", 1))
        return frames
    return [_frame_of(entry) for entry in entries]


def is_hidden(entry: TracebackType) -> bool:
    """Say whether an entry is of the kernel itself, or of a module that has its lines hidden."""
    frame = entry.tb_frame
    return is_internal(frame.f_code.co_filename) or frame.f_globals.get("__tracebackhide__") is True


def is_group(error: BaseException) -> bool:
    """Say whether `error` is an exception group, whose members the caller carries one by one."""
    return sys.version_info >= (3, 11) and isinstance(error, BaseExceptionGroup)  # noqa: F821


def is_pythons(entry: TracebackType) -> bool:
    """Say whether an entry is of Python's own library."""
    file = entry.tb_frame.f_code.co_filename
    return file.startswith(_PYTHONS) and not file.startswith(_INSTALLED)


def _frame_of(entry: TracebackType) -> Frame:
    code = entry.tb_frame.f_code
    number = entry.tb_lineno or 0
    line = linecache.getline(code.co_filename, number, entry.tb_frame.f_globals)
    return "".join([code.co_filename]), number, "".join([code.co_name]), line.strip(), code.co_firstlineno


def traceback_of(frames: list[Frame]) -> TracebackType | None:
    """Return a traceback that shows `frames`, or None for no frames."""
    traceback = None
    for filename, number, name, line, first in reversed(frames):
        code = _code(filename, name, number, first)
        frame = FunctionType(code, {"__name__": "", "_getframe": sys._getframe})()
        traceback = TracebackType(traceback, frame, 0, number)
        if line:
            _remember_line(filename, number, line)
    return traceback


def hide_internal_frames(error: _E) -> _E:
    """Take the kernel's own entries out of the traceback of `error` and return it, for `raise hide...(error)`."""
    return error.with_traceback(user_traceback(error.__traceback__))


def user_traceback(entry: TracebackType | None) -> TracebackType | None:
    """Return the entries of a traceback that are not the kernel's own, None if all are."""
    kept = []
    while entry is not None:
        if not is_hidden(entry):
            kept.append(entry)
        entry = entry.tb_next
    return strung_together(kept)


def strung_together(entries: list[TracebackType]) -> TracebackType | None:
    """Return a traceback of `entries`, None for none."""
    traceback = None
    for entry in reversed(entries):
        traceback = TracebackType(traceback, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return traceback


# -- one frame -----------------------------------------------------------------------------------------------------


def _template():  # type: ignore[no-untyped-def]
    return _getframe()  # type: ignore[name-defined]  # noqa: F821


@lru_cache(maxsize=1024)
def _code(filename: str, name: str, number: int, first: int) -> CodeType:
    """Return code whose frame is in line `number`: some displays of tracebacks, such as IPython's, ask the frame."""
    code: CodeType = _template.__code__
    table = _line_table(len(code.co_code), number - first)
    if sys.version_info >= (3, 11):
        code = code.replace(co_qualname=name)
    return code.replace(co_filename=filename, co_name=name, co_firstlineno=first, co_linetable=table)


def _line_table(size: int, lines: int) -> bytes:
    """Return a table that says of `size` bytes of code that they are `lines` below its first line, and no columns.

    So nothing is underlined below the line. From 3.11 on an entry covers at most eight instructions of two bytes; 13 is
    the code for "no columns", and a number of lines follows. Before, an entry is bytes of code and up to 127 lines.
    """
    table = bytearray()
    if sys.version_info < (3, 11):
        step = 127 if lines > 0 else -127
        while abs(lines) > 127:
            table += bytes((0, step & 0xFF))
            lines -= step
        return bytes(table) + bytes((size, lines & 0xFF))
    instructions = size // 2
    while instructions > 0:
        covered = min(instructions, 8)
        table.append(0x80 | 13 << 3 | covered - 1)
        table += _number(lines)
        instructions -= covered
        lines = 0
    return bytes(table)


def _number(value: int) -> bytes:
    """Return a number with sign as line tables have it: six bits a byte, lowest first, the sign in the very lowest."""
    rest = value << 1 if value >= 0 else -value << 1 | 1
    encoded = bytearray()
    while rest >= 0x40:
        encoded.append(0x40 | rest & 0x3F)
        rest >>= 6
    encoded.append(rest)
    return bytes(encoded)


# -- source lines of files that are not here -----------------------------------------------------------------------


class _KnownLines(list[str]):
    """The few known lines of a file, by index; `linecache` asks for nothing but a length and single lines."""

    def __init__(self) -> None:
        super().__init__()
        self.by_number: dict[int, str] = {}

    def __len__(self) -> int:
        return max(self.by_number, default=0)

    def __getitem__(self, index: SupportsIndex | slice) -> str:  # type: ignore[override]
        return self.by_number.get(int(index) + 1, "\n") if not isinstance(index, slice) else ""


@lru_cache(maxsize=1024)
def _is_here(filename: str) -> bool:
    return os.path.exists(filename)


def _remember_line(filename: str, number: int, line: str) -> None:
    """Let `linecache` show a line whose file is on another machine, or was never in a file."""
    entry = linecache.cache.get(filename)
    known = entry[2] if entry is not None and len(entry) > 2 else None
    if not isinstance(known, _KnownLines):
        if known or _is_here(filename):
            return
        known = _KnownLines()
        # No modification time: linecache then keeps the entry without looking for the file.
        linecache.cache[filename] = (1, None, known, filename)
    known.by_number[number] = line + "\n"
