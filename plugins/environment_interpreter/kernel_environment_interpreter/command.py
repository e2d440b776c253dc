"""Read `runtime_env["py_executable"]` into the words of a command that runs an interpreter."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from typing import Any

from kernel_spec.errors import RuntimeEnvError

TITLE = "runtime_env['py_executable']"
"""The name of the field in errors."""


def words_of(value: Any) -> list[str]:
    """Return the words of a command, which is given as a list of them or as one text with a shell's quotes.

    Raises RuntimeEnvError for what is no command.
    """
    if isinstance(value, os.PathLike):
        value = [os.fspath(value)]
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise RuntimeEnvError(f"{TITLE} is {value!r}, which is no command: {error}") from error
    if not isinstance(value, (list, tuple)) or not value or not all(word and isinstance(word, str) for word in value):
        raise RuntimeEnvError(
            f"{TITLE} must be the path of an interpreter or a command that runs one, such as 'uv run --with rich', "
            f"not {value!r}"
        )
    return list(value)


def command_on_node(words: Sequence[str], path: str) -> list[str]:
    """Return the command that runs the interpreter on this node, whose programs are searched for in `path`.

    `uv run` without a program is completed: it runs `python`. Raises RuntimeEnvError for a program that the node lacks.
    """
    first, *more = words
    program = shutil.which(os.path.expanduser(first), path=path)
    if program is None:
        where = "" if os.path.dirname(first) else f" on its PATH ({path})"
        raise RuntimeEnvError(
            f"{TITLE} names the program {first!r}, which this node does not have{where}; install it on each node, or "
            "name one that is there"
        )
    if os.path.basename(program) == "uv" and more[:1] == ["run"] and not is_python(more[-1]):
        more.append("python")
    return [os.path.abspath(program), *more]


def is_python(word: str) -> bool:
    """Return whether a word is the name or the path of an interpreter."""
    return os.path.basename(word).startswith(("python", "pypy"))
