"""Import of libraries that only some features need."""

from __future__ import annotations

import importlib
from typing import Any

from kernel_runs.errors import OptionalDependencyError


def needed(module: str, feature: str, install: str) -> Any:
    """Import and return a module. Raises OptionalDependencyError with the command that installs it, if that fails.

    `feature` begins the sentence ("MLflowLoggerCallback"), `install` is the argument of pip ("mlflow").
    """
    top = module.partition(".")[0]
    try:
        importlib.import_module(top)
        return importlib.import_module(module)
    except Exception as error:  # a library that is installed and broken may raise anything
        missing = isinstance(error, ModuleNotFoundError) and error.name == top
        said = "is not installed" if missing else f"fails to import ({type(error).__name__}: {error})"
        raise OptionalDependencyError(
            f"{feature} needs the library {top!r}, which {said}. Run: pip install {install}"
        ) from error
