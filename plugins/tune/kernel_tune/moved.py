"""Former names of modules that are parts of `kernel_runs` now. Programs and old pickles use them.

`import kernel_tune.callbacks` returns the module `kernel_runs.callbacks` itself, so that each class exists once. A
former module whose content is now in several modules, or only partly there, has a file here that imports it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

MOVED = {
    "kernel_tune.analysis.checkpoints": "kernel_runs.results.checkpoints",
    "kernel_tune.analysis.frames": "kernel_runs.results.frames",
    "kernel_tune.arguments": "kernel_runs.arguments",
    "kernel_tune.callbacks": "kernel_runs.callbacks",
    "kernel_tune.execution.given_algorithm": "kernel_tune.execution.wrapped_algorithm",
    "kernel_tune.loggers": "kernel_runs.loggers",
    "kernel_tune.optional": "kernel_runs.optional",
    "kernel_tune.pickling": "kernel_runs.pickling",
    "kernel_tune.reporters.text": "kernel_runs.progress.text",
    "kernel_tune.reporters.trial_progress": "kernel_runs.progress.result_lines",
    "kernel_tune.testing.reports": "kernel_runs.testing.running_trial",
    "kernel_tune.trainable.devices": "kernel_runs.process.devices",
    "kernel_tune.trainable.durable": "kernel_runs.trainable.durable",
    "kernel_tune.trainable.function": "kernel_runs.trainable.function",
    "kernel_tune.trainable.place": "kernel_runs.place",
    "kernel_tune.trainable.printed": "kernel_runs.process.trial_output",
    "kernel_tune.trainable.registry": "kernel_runs.trainable.registry",
    "kernel_tune.trainable.trainable": "kernel_runs.trainable.trainable",
    "kernel_tune.trainable.wrappers": "kernel_runs.trainable.wrappers",
}
"""Former name to present name. A package stands for all modules below it as well."""


def install() -> None:
    """Make the former names importable."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())  # first: below a package that moved the usual finder would load files again


class _Finder:
    """Finds modules by their former names."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("kernel_tune."):
            return None
        package, _, module = name.rpartition(".")
        real = MOVED.get(name) or (f"{MOVED[package]}.{module}" if package in MOVED else "")
        if not real:
            return None
        from importlib.machinery import ModuleSpec  # here: each process that has Tune starts with this file
        from importlib.util import find_spec

        loader: Any = _Loader(real)
        return ModuleSpec(name, loader, origin=real) if find_spec(real) is not None else None


class _Loader:
    """Loads a module by its present name, and returns the same object."""

    def __init__(self, real: str) -> None:
        self._real = real
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the real module."""
        from importlib import import_module  # see above

        module = import_module(self._real)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the spec that the import system has replaced: the module has run under its present name already."""
        module.__spec__ = self._spec
