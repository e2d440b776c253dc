"""Describe errors of plugins for their authors: the plugin, the method, and the traceback of the plugin's lines.

Errors of plugins cross processes as text, so the traceback is part of the text.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from kernel_spec.errors import KernelError, PluginError

_OWN = ("kernel", "kernel_local_mode", "kernel_spec")
_MOST_FRAMES = 20


def summary(error: BaseException) -> str:
    """Return the type and the text of an error, without its lines; a PluginError's text says it all."""
    text = str(error)
    if type(error) is PluginError:
        return text.partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def lines_of(error: BaseException) -> str:
    """Return the traceback of `error`, with the file and line of each call, without the kernel's own frames.

    It begins with a line break, so that it can be appended to a sentence; it is "" if there are only the kernel's
    frames.
    """
    import traceback  # imported only for errors

    if isinstance(error, SyntaxError) and error.filename:
        return "\n" + "".join(traceback.format_exception_only(type(error), error)).rstrip()
    entries = _foreign(error.__traceback__)
    if not entries and isinstance(error, KernelError):
        _, line_break, lines = str(error).partition("\n") if type(error) is PluginError else ("", "", "")
        return line_break + lines
    frames = traceback.extract_tb(entries[0] if entries else error.__traceback__)
    return "\n" + "".join(traceback.format_list(frames[-_MOST_FRAMES:])).rstrip() if frames else ""


def told(what: str, error: BaseException, then: str = "") -> str:
    """Return a message that `what` (such as "the observer of the plugin 'x'") raised `error`, and the traceback.

    `then` is the consequence.
    """
    return f"{what} raised {summary(error)}{f'; {then}' if then else ''}{lines_of(error)}"


def place_of(error: BaseException) -> str:
    """Return the last line of a plugin that `error` passed through, as " (FILE, line N, in NAME)", or nothing."""
    entries = _foreign(error.__traceback__)
    if not entries:
        return ""
    code = entries[-1].tb_frame.f_code
    return f" ({code.co_filename}, line {entries[-1].tb_lineno}, in {code.co_name})"


def missing_members(thing: Any, contract: type) -> list[str]:
    """Return the names of the members of the protocol `contract` that `thing` lacks."""
    names: dict[str, None] = {}
    for protocol in contract.__mro__:
        if getattr(protocol, "_is_protocol", False):
            names |= dict.fromkeys(getattr(protocol, "__annotations__", {}))
            names |= dict.fromkeys(name for name, value in vars(protocol).items() if callable(value))
    return [name for name in names if not name.startswith("_") and not hasattr(thing, name)]


def _foreign(entry: TracebackType | None) -> list[TracebackType]:
    """Return the entries of a traceback that are not in the kernel's own modules."""
    found = []
    while entry is not None:
        module = str(entry.tb_frame.f_globals.get("__name__", ""))
        if module.split(".")[0] not in (*_OWN, "importlib", "pluggy"):
            found.append(entry)
        entry = entry.tb_next
    return found
