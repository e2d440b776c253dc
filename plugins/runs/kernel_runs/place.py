"""The place of a trainable: the run that it belongs to, and the machine."""

from __future__ import annotations

import os
import socket
import tempfile
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass
class Place:
    """The run of a process. `logdir` is its directory; with "" a temporary one is created when it is needed."""

    trial_id: str | None = None
    trial_name: str | None = None
    experiment_name: str | None = None
    logdir: str = ""
    resources: Any = None
    upload_dir: str = ""
    """The address that the experiment's files are copied to; "" if they are not copied."""
    experiment_directory: str = ""
    driver_node: str = ""
    """The node of the driver, which sees the files of runs on that node."""
    marker: str = ""
    """The content of a file in the experiment's directory. A machine that can read it shares that directory."""
    node_ip: str = "127.0.0.1"
    hostname: str = field(default_factory=socket.gethostname)

    _current: ClassVar[Place | None] = None

    @property
    def directory(self) -> str:
        """The run's directory, which is created if needed."""
        if not self.logdir:
            self.logdir = tempfile.mkdtemp(prefix="kernel_runs_")
        os.makedirs(self.logdir, exist_ok=True)
        return self.logdir

    @classmethod
    def current(cls) -> Place | None:
        """Return the place of trainables that are created in this process, or None outside of an experiment."""
        return cls._current

    @classmethod
    def set_current(cls, place: Place | None) -> None:
        """Set the place of trainables that are created in this process from now on."""
        cls._current = place
