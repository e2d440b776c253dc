"""Where runs have their files: the directory of all results, and the names of those below it."""

from __future__ import annotations

import itertools
import os

from kernel_runs.errors import RunError

RESULTS_VARIABLE = "TUNE_RESULT_DIR"
"""In the environment: where results are, in place of `~/kernel_results`."""


def results_directory() -> str:
    """Return where experiments are by default."""
    return os.path.expanduser(os.environ.get(RESULTS_VARIABLE) or "~/kernel_results")


def unused_name(root: str, name: str) -> str:
    """Make a directory below `root` that nobody has; return its name: the one wanted, or that with a number."""
    for number in itertools.count(1):
        unused = name if number == 1 else f"{name}_{number}"
        try:
            os.makedirs(os.path.join(root, unused))
        except FileExistsError:
            continue
        except OSError:
            break  # said when the experiment begins
        return unused
    return name


def check_name(root: str, name: str) -> None:
    """Raise RunError for a name that no directory can have, or whose directory would not be below `root`."""
    if "\0" in name:
        raise RunError(f"an experiment can't be called {name!r}: no directory can have a NUL in its name")
    directory = os.path.normpath(os.path.join(root, name))
    if os.path.isabs(name) or os.path.commonpath([root, directory]) != root or directory == root:
        raise RunError(
            f"an experiment can't be called {name!r}: its directory would be {directory}, which is not below {root}. "
            "Give a name without '..', and another place as storage_path"
        )
