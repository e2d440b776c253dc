"""Watch the sources of an application while it is developed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from kernel_serve.users_code import told
from kernel_spec.errors import KernelError

_SUFFIXES = (".py", ".yaml", ".yml", ".json", ".toml")
_NOT_OURS = {"__pycache__", "node_modules", "site-packages", "venv", "env", "build", "dist"}
_MOST_FILES = 20_000

State = dict[str, tuple[int, int]]


class Watcher:
    """Notices changes of source files below a directory, and of single files."""

    def __init__(self, directory: str, files: tuple[str, ...] = ()) -> None:
        self._directory = directory
        self._files = tuple(os.path.abspath(file) for file in files)
        self._seen = self._look()

    def changed(self) -> list[str]:
        """Return the files that were changed, added or removed since the last call, once they have stopped changing."""
        now = self._look()
        if now == self._seen:
            return []
        time.sleep(0.05)  # An editor writes a file in several steps, a version control many files.
        while (later := self._look()) != now:
            now = later
            time.sleep(0.05)
        names = [name for name in {**self._seen, **now} if self._seen.get(name) != now.get(name)]
        self._seen = now
        return sorted(names)

    def _look(self) -> State:
        found: State = {}
        for path in self._paths():
            try:
                status = os.stat(path)
            except OSError:
                continue
            found[path] = (status.st_mtime_ns, status.st_size)
            if len(found) >= _MOST_FILES:
                break
        return found

    def _paths(self) -> Iterator[str]:
        yield from self._files
        for directory, names, files in os.walk(self._directory):
            names[:] = [name for name in names if not name.startswith(".") and name not in _NOT_OURS]
            yield from (os.path.join(directory, name) for name in files if name.endswith(_SUFFIXES))


def watch(watcher: Watcher, redeploy: Callable[[], None], tell: Callable[[str], None], seconds: float = 0.3) -> None:
    """Call `redeploy` after each change, until interrupted. If it raises, report that; the old version goes on."""
    while True:
        time.sleep(seconds)
        names = watcher.changed()
        if names:
            once(names, redeploy, tell)


def once(names: list[str], redeploy: Callable[[], None], tell: Callable[[str], None]) -> None:
    """Report a change, call `redeploy`, and report its result."""
    shown = ", ".join(os.path.basename(name) for name in names[:3]) + (", ..." if len(names) > 3 else "")
    tell(f"{shown} changed")
    began = time.monotonic()
    try:
        redeploy()
    except (Exception, SystemExit) as error:
        text = str(error) if isinstance(error, KernelError) else told(error)
        tell(f"{text}\nthe old version goes on until the next change")
    else:
        tell(f"runs the new version after {time.monotonic() - began:.1f} s")
