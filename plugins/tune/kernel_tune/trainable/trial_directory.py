"""Where a trial's directory is on the machine that it runs on, and whether that is the program's own."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass, field

from kernel_runs.place import Place
from kernel_tune.storage.trial_files import Stamp, list_files

NODE_DIRECTORY_VARIABLE = "TUNE_NODE_DIR"
"""In the environment of a node: below which directory trials have theirs there."""
MARKER_FILE = ".driver"
"""In the experiment's directory where the program runs: who sees it there sees the program's files."""


@dataclass
class TrialDirectory:
    """The directory of a trial on a machine. `is_shared` says whether the program sees the same files there."""

    node: str
    hostname: str
    address: str
    user: str
    directory: str
    is_shared: bool
    files: dict[str, Stamp] = field(default_factory=dict)
    """What was there when the trial came, where that is not shared."""

    @property
    def source(self) -> str:
        """What a command such as rsync calls it from the program's machine: `user@address:/path`."""
        if self.hostname == socket.gethostname():
            return self.directory
        return f"{self.user}@{self.address}:{self.directory}"


def directory_on(place: Place, node: str) -> tuple[str, bool]:
    """Make and return the trial's directory on the node that this runs on, and whether the program sees its files."""
    if not place.logdir or node == place.driver_node:
        return place.directory, True
    root = os.environ.get(NODE_DIRECTORY_VARIABLE)
    if not root:
        with contextlib.suppress(OSError):  # the program's user has another home than the node's, perhaps
            os.makedirs(place.logdir, exist_ok=True)
            return place.logdir, _sees_marker(place)
        from kernel_runs.storage.places import results_directory  # here: each trial's process starts with this

        root = results_directory()
    inside = os.path.relpath(place.logdir, os.path.dirname(place.experiment_directory))
    directory = os.path.join(os.path.abspath(os.path.expanduser(root)), inside)
    os.makedirs(directory, exist_ok=True)
    return directory, False


def trial_directory_on(place: Place, node: str, address: str) -> TrialDirectory:
    """Make and describe the trial's directory on the node that this runs on."""
    directory, is_shared = directory_on(place, node)
    files = {} if is_shared else list_files(directory)
    return TrialDirectory(node, socket.gethostname(), address, _user(), directory, is_shared, files)


def _sees_marker(place: Place) -> bool:
    try:
        with open(os.path.join(place.experiment_directory, MARKER_FILE), encoding="utf-8") as file:
            return bool(place.marker) and file.read() == place.marker
    except OSError:
        return False


def _user() -> str:
    import getpass  # see above

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an id without a name, as in containers
        return str(os.getuid())
