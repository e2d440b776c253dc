"""The command line in tests: `kernel ...` as a program, with sessions in a directory of its own.

with temporary_root() as root:
    line = CommandLine(root)
    started = line.json("start", "--head", "--port", "0")
    ...
    line.end()
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_testing.faults import PATIENCE_SECONDS

COMMAND = (sys.executable, "-m", "kernel.cli.main")
SECONDS = PATIENCE_SECONDS
_OURS = ("KERNEL_ADDRESS", "KERNEL_TOKEN", "KERNEL_TLS", "NO_COLOR")


class CommandLine:
    """Runs `kernel ...` on sessions below `root`; `prefix` is a command that runs it elsewhere (in a namespace)."""

    def __init__(self, root: str, prefix: Sequence[str] = (), **environment: str) -> None:
        self.root = root
        self.prefix = tuple(prefix)
        inherited = {name: value for name, value in os.environ.items() if name not in _OURS}
        paths = os.pathsep.join(path for path in sys.path if path)
        self.environment = {**inherited, "KERNEL_TMPDIR": root, "PYTHONPATH": paths, **environment}

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; `more` is added to its environment."""
        return subprocess.run(
            [*self.prefix, *COMMAND, *arguments],
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def json(self, *arguments: str, **more: str) -> Any:
        """Run a command that must succeed, and return what it printed as JSON."""
        done = self.run(*arguments, "--json", **more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def start(self, *arguments: str, **more: str) -> Mapping[str, Any]:
        """Start a small head that stays."""
        started: Mapping[str, Any] = self.json("start", "--head", *_small(arguments), *arguments, **more)
        return started

    def join(self, head: str, *arguments: str, **more: str) -> Mapping[str, Any]:
        """Start a small node of the cluster whose head is at `head` ("HOST:PORT")."""
        joined: Mapping[str, Any] = self.json("start", "--address", head, *_small(arguments), *arguments, **more)
        return joined

    def refused(self, *arguments: str, code: int = 2, **more: str) -> str:
        """Run a command that must be refused in one line, and return the line."""
        done = self.run(*arguments, **more)
        assert done.returncode == code, done
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr, done.stderr
        return done.stderr.strip()

    def program(self, text: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a Python program, with pipes to and from it."""
        return subprocess.Popen(
            [*self.prefix, sys.executable, "-c", text, *arguments],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> None:
        """End all that was started, at once."""
        self.run("stop", "--all", "--force")


def _small(given: Sequence[str]) -> list[str]:
    """Return options that make a node small, without those that are `given`."""
    small = {"--num-cpus": "1", "--object-store-memory": "32MB"}
    return [text for name, value in small.items() if name not in given for text in (name, value)]
