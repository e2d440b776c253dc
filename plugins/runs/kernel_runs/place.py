"""Where a trainable runs, and as which run."""

from __future__ import annotations

import os
import socket
import tempfile
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass
class Place:
    """The run that a process is of. `logdir` is its directory; "" stands for one that is made when it is needed."""

    trial_id: str | None = None
    trial_name: str | None = None
    experiment_name: str | None = None
    logdir: str = ""
    resources: Any = None
    upload_dir: str = ""
    """Where the experiment's files are copied to, if anywhere."""
    experiment_directory: str = ""
    driver_node: str = ""
    """The node of the program, which sees the files of runs that are there."""
    marker: str = ""
    """What is in the file of the experiment's directory by which other machines see that they share it."""
    node_ip: str = "127.0.0.1"
    hostname: str = field(default_factory=socket.gethostname)

    _current: ClassVar[Place | None] = None

    @property
    def directory(self) -> str:
        """The run's directory, which is there."""
        if not self.logdir:
            self.logdir = tempfile.mkdtemp(prefix="kernel_runs_")
        os.makedirs(self.logdir, exist_ok=True)
        return self.logdir

    @classmethod
    def current(cls) -> Place | None:
        """Return the place of trainables that are being made in this process, None outside of an experiment."""
        return cls._current

    @classmethod
    def set_current(cls, place: Place | None) -> None:
        """Say where trainables are made from now on."""
        cls._current = place
