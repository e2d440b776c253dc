"""The directory of a trial on the machine that it runs on, and whether the driver sees it."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass, field

from kernel_runs.place import Place
from kernel_tune.storage.trial_files import Stamp, list_files

NODE_DIRECTORY_VARIABLE = "TUNE_NODE_DIR"
"""The environment variable of a node with the directory for trials on that node."""
MARKER_FILE = ".driver"
"""The file in the experiment's directory by which a process recognises that it sees the driver's files."""


@dataclass
class TrialDirectory:
    """Represents a trial's directory on a machine. `is_shared` says whether the driver sees the same files there."""

    node: str
    hostname: str
    address: str
    user: str
    directory: str
    is_shared: bool
    files: dict[str, Stamp] = field(default_factory=dict)
    """The files that were there when the trial came, if the directory is not shared."""

    @property
    def source(self) -> str:
        """The directory as commands such as rsync name it on the driver's machine: `user@address:/path`."""
        if self.hostname == socket.gethostname():
            return self.directory
        return f"{self.user}@{self.address}:{self.directory}"


def directory_on(place: Place, node: str) -> tuple[str, bool]:
    """Create the trial's directory on this node. Return it, and whether the driver sees its files."""
    if not place.logdir or node == place.driver_node:
        return place.directory, True
    root = os.environ.get(NODE_DIRECTORY_VARIABLE)
    if not root:
        with contextlib.suppress(OSError):  # the path may not be writable on this node
            os.makedirs(place.logdir, exist_ok=True)
            return place.logdir, _sees_marker(place)
        from kernel_runs.storage.places import results_directory  # here: each trial's process starts with this file

        root = results_directory()
    inside = os.path.relpath(place.logdir, os.path.dirname(place.experiment_directory))
    directory = os.path.join(os.path.abspath(os.path.expanduser(root)), inside)
    os.makedirs(directory, exist_ok=True)
    return directory, False


def trial_directory_on(place: Place, node: str, address: str) -> TrialDirectory:
    """Create the trial's directory on this node, and return its description."""
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
    except (KeyError, OSError):  # a user id without a name, as in containers
        return str(os.getuid())
