"""Where experiments are stored: the directory of all results, and names below it."""

from __future__ import annotations

import itertools
import os

from kernel_runs.errors import RunError

RESULTS_VARIABLE = "TUNE_RESULT_DIR"
"""The environment variable that replaces `~/kernel_results`."""


def results_directory() -> str:
    """Return the directory of experiments by default."""
    return os.path.expanduser(os.environ.get(RESULTS_VARIABLE) or "~/kernel_results")


def unused_name(root: str, name: str) -> str:
    """Create a new directory below `root`, and return its name: `name`, or `name` with a number."""
    for number in itertools.count(1):
        unused = name if number == 1 else f"{name}_{number}"
        try:
            os.makedirs(os.path.join(root, unused))
        except FileExistsError:
            continue
        except OSError:
            break  # reported when the experiment begins
        return unused
    return name


def check_name(root: str, name: str) -> None:
    """Raise RunError for a name that is not possible, or whose directory would not be below `root`."""
    if "\0" in name:
        raise RunError(f"an experiment can't be called {name!r}: no directory can have a NUL in its name")
    directory = os.path.normpath(os.path.join(root, name))
    if os.path.isabs(name) or os.path.commonpath([root, directory]) != root or directory == root:
        raise RunError(
            f"an experiment can't be called {name!r}: its directory would be {directory}, which is not below {root}. "
            "Give a name without '..', and another place as storage_path"
        )
