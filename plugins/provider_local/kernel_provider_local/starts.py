"""What this machine knows of the starts of nodes on hosts: the `ssh` that starts each, and whether it has ever run."""

from __future__ import annotations

import shutil
from pathlib import Path

from kernel_provider_local.remote_node import ID_VARIABLE
from kernel_spec.process_marks import has_mark


class NodeStarts:
    """Keeps a directory for each start in `root`, so that nothing is forgotten when the head is started again."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def begin(self, id: str) -> Path:
        """Make the directory of a start and return where its log is written."""
        (self._root / id).mkdir(parents=True, exist_ok=True, mode=0o700)
        return self._root / id / "start.log"

    def begun(self, id: str, pid: int) -> None:
        """Note the process that starts a node."""
        (self._root / id / "pid").write_text(str(pid))

    def has_begun(self, id: str) -> bool:
        """Return whether a process was started for a node."""
        return (self._root / id / "pid").exists()

    def is_starting(self, id: str) -> bool:
        """Return whether that process is there still."""
        try:
            pid = int((self._root / id / "pid").read_text())
            return has_mark(pid, ID_VARIABLE, id)
        except (OSError, ValueError):
            return False

    def note_running(self, id: str) -> None:
        """Note that a node was seen running."""
        directory = self._root / id
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        (directory / "ran").touch()

    def has_run(self, id: str) -> bool:
        """Return whether a node was ever seen running."""
        return (self._root / id / "ran").exists()

    def problem(self, id: str) -> str:
        """Return the last line of what a start has said; that of a start that was ended well is no problem."""
        try:
            lines = (self._root / id / "start.log").read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else ""

    def forget(self, id: str) -> None:
        """Remove what is known of a node that is gone."""
        shutil.rmtree(self._root / id, ignore_errors=True)
