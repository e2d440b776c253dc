"""A task and an actor that wait to be killed: for the tests of how deaths are noticed, and for how soon they are."""

from __future__ import annotations

import os
import time
from typing import Any

import kernel


@kernel.remote(num_cpus=0, max_retries=0)
def note_and_wait(path: str) -> None:
    """Write the process id to a file, all at once, and never end."""
    with open(path + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)
    time.sleep(600)


@kernel.remote(num_cpus=0)
class Victim:
    """Says who it is, waits, has an object, hands it on, and reads one."""

    def pid(self) -> int:
        """Return the process id."""
        return os.getpid()

    def wait(self) -> None:
        """Never end."""
        time.sleep(600)

    def hand_to(self, other: Any) -> int:
        """Give another a reference to an object of this process, whose id is returned."""
        self.ref = kernel.put([1])
        kernel.get(other.keep.remote([self.ref]))
        return os.getpid()

    def keep(self, refs: list[kernel.ObjectRef]) -> None:
        """Take references."""
        self.refs = refs

    def read(self) -> Any:
        """Return what the first of them stands for."""
        return kernel.get(self.refs[0])
