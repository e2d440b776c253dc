"""The builder of the field `py_executable`, which the kernel calls: see `kernel_spec.environments`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kernel_environment_interpreter.command import command_on_node, words_of
from kernel_spec.environments import BuildPlace, Program, WorkerStart


class InterpreterEnvironment:
    """Runs workers in the interpreter that a field names. Its first run may take `build_seconds`."""

    field = "py_executable"
    cache_bytes = float(16 << 20)
    """What is built is small: the command itself keeps what it installs."""

    def __init__(self, *, build_seconds: float) -> None:
        self.build_seconds = build_seconds

    def check(self, value: Any) -> None:
        """Raise RuntimeEnvError unless `value` is a command as one text, a path, or a list of words."""
        words_of(value)

    def prepare(self, value: Any, program: Program) -> list[str]:
        """Return the words of the command. It is the nodes that must have its files."""
        return words_of(value)

    def packages(self, prepared: Any) -> Sequence[str]:
        """Return nothing: no file of the program is needed."""
        return ()

    def build(self, prepared: Any, place: BuildPlace) -> WorkerStart:
        """Run the interpreter once. Raises RuntimeEnvError for one that can't be used."""
        from kernel_environment_interpreter.interpreter import worker_start

        return worker_start(command_on_node(prepared, os.environ.get("PATH", os.defpath)), place.directory)
