"""The wall clock of a session, as something that jumps: what decides must not look at it.

with jumping_clock() as clock:
    with Cluster() as cluster:  # or running_session()
        clock.jump(-3600)

`time.time` and `time.time_ns` of every process that is started meanwhile, and of this one, are ahead of the machine's
by what the jumps add up to. The machine's clock is left alone.
"""

from __future__ import annotations

import importlib
import struct
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MOST_SECONDS = 0.02
"""What an unhurried clock counts at most between two looks at it: a little more than a loop waits in one turn."""
_NAME = "kernel_testing_jumping_clock"
_FILES = {
    f"{_NAME}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: 1.0\n",
    f"{_NAME}-1.0.dist-info/entry_points.txt": f"[kernel.plugins]\n{_NAME} = {_NAME}\n",
    f"{_NAME}.py": """
        import mmap, os, struct, time
        from kernel_spec import CONTRACTS, hookimpl

        _file = os.open(os.path.join(os.path.dirname(__file__), "ahead"), os.O_RDONLY)
        _ahead = mmap.mmap(_file, 8, mmap.MAP_SHARED, mmap.PROT_READ)
        os.close(_file)
        real, real_ns = time.time, time.time_ns

        def _time():
            return real() + struct.unpack("d", _ahead[:8])[0]

        def _time_ns():
            return real_ns() + int(struct.unpack("d", _ahead[:8])[0] * 1e9)

        time.time, time.time_ns = _time, _time_ns

        def undo():
            time.time, time.time_ns = real, real_ns

        @hookimpl
        def kernel_contracts():
            return {"accelerator": CONTRACTS["accelerator"]}

        @hookimpl
        def kernel_accelerators():
            return []  # being asked for some has it loaded in every process
    """,
}


class UnhurriedClock:
    """Real time as a test's own loop uses it up: of a stand of this process it counts little, so nothing is late then.

    `added` is what a test adds to it.
    """

    def __init__(self) -> None:
        self.added = 0.0
        self._now = 0.0
        self._read = time.monotonic()
        self._stopped = False
        self._lock = threading.Lock()

    def __call__(self) -> float:
        """Return the seconds that have passed."""
        with self._lock:
            now = time.monotonic()
            if not self._stopped:
                self._now += min(now - self._read, _MOST_SECONDS)
            self._read = now
            return self._now + self.added

    def stop(self) -> None:
        """Let only `added` pass from now on."""
        self._stopped = True


class JumpingClock:
    """The clock. `ahead` says by how many seconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.ahead = 0.0
        path.write_bytes(struct.pack("d", 0.0))

    def jump(self, seconds: float) -> None:
        """Set it forward, or back, by so many seconds."""
        self.ahead += seconds
        with self._path.open("r+b") as file:
            file.write(struct.pack("d", self.ahead))


@contextmanager
def jumping_clock() -> Iterator[JumpingClock]:
    """Give this process, and every session that is begun inside the block, a clock that jumps."""
    with tempfile.TemporaryDirectory(prefix="kt-") as site:
        for name, text in _FILES.items():
            path = Path(site, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(textwrap.dedent(text).lstrip())
        clock = JumpingClock(Path(site, "ahead"))
        sys.path.insert(0, site)
        importlib.invalidate_caches()
        module = importlib.import_module(_NAME)
        try:
            yield clock
        finally:
            module.undo()
            sys.modules.pop(_NAME, None)
            sys.path.remove(site)
