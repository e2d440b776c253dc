"""A node provider for trying an autoscaler out: each of its machines is a node more on the head's own machine.

Such a node is an agent of its own with the resources that its kind says, whatever the machine really has. What is
running is found again by a file for each node, so nothing is forgotten when the head is started again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel_spec.errors import NodeProviderError
from kernel_spec.process_marks import has_mark
from kernel_spec.providers import CAPACITY, INVALID, KindDetails, ProvidedNode

_ID = "KERNEL_PROVIDER_ID"
"""The variable by which the processes of a node are known."""
DEFAULT_KINDS = {"small": {"CPU": 1.0}}


class LoopbackProvider:
    """Starts nodes with `kernel start` on this machine.

    `configuration`: `session`, the head's session directory, below which it keeps its files (default: a new directory,
    so that nothing is found again); `kinds`, name to resources (default: `small`, one CPU); `prices`, name to price
    per hour; `directory`, where nodes have their sessions (default: /tmp; paths of sockets have to be short);
    `object_store_memory` of each node ("64MB"). Raises NodeProviderError for a kind without resources.
    """

    name = "loopback"

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self._root = Path(configuration.get("session") or tempfile.mkdtemp(prefix="kernel-loopback-")) / "loopback"
        self._kinds = {name: dict(kind) for name, kind in (configuration.get("kinds") or DEFAULT_KINDS).items()}
        self._prices = dict(configuration.get("prices", {}))
        self._directory = f"{configuration.get('directory', '/tmp')}/kernel-loopback-{os.getuid()}"
        self._store = str(configuration.get("object_store_memory", "64MB"))
        for name, resources in self._kinds.items():
            if not resources:
                raise NodeProviderError(f"kind {name!r} of the node provider 'loopback' has no resources", code=INVALID)

    def kinds(self) -> Mapping[str, Mapping[str, float]]:
        """Return the configured kinds and their resources."""
        return {name: dict(resources) for name, resources in self._kinds.items()}

    def describe(self, kind: str) -> KindDetails:
        """Return the price of a kind. Raises NodeProviderError for an unknown one."""
        self._check(kind)
        return KindDetails(self._prices.get(kind), boot_seconds=5.0)

    def list(self) -> Sequence[ProvidedNode]:
        """Return the nodes that run, start, stop, or could not be started."""
        found = []
        for file in sorted(self._root.glob("*/node.json")):
            with contextlib.suppress(FileNotFoundError):  # It has just gone, with its directory.
                said = json.loads(file.read_text())
                state, problem = _state(file.parent, said)
                if state:
                    found.append(ProvidedNode(file.parent.name, said["kind"], state, "127.0.0.1", problem=problem))
        return found

    def create(self, kind: str, count: int, join: Mapping[str, Any], token: str = "") -> Sequence[str]:
        """Begin to start `count` nodes that join with `join`, and return their ids; those of the same `token`, if any.

        Raises NodeProviderError for an unknown kind, a count below one, and where no process can be started.
        """
        self._check(kind)
        if count < 1:
            raise NodeProviderError(f"{count} nodes of kind {kind!r} were asked for, not 1 up", code=INVALID)
        earlier = [file.parent.name for file in self._root.glob("*/node.json") if token and token == _token_of(file)]
        return sorted(earlier) or [self._begin(kind, join, token) for _ in range(count)]

    def terminate(self, ids: Sequence[str]) -> None:
        """End nodes: what has started at once, what is starting when it has. Unknown ids are ignored."""
        for id in ids:
            directory = self._root / id
            with contextlib.suppress(OSError, ValueError):
                said = json.loads((directory / "node.json").read_text())
                _write(directory / "node.json", {**said, "ended": True})
                pid = _agent_pid(directory)
                if pid and has_mark(pid, _ID, id):
                    os.kill(pid, signal.SIGTERM)

    def _begin(self, kind: str, join: Mapping[str, Any], token: str) -> str:
        id = f"loopback-{uuid.uuid4().hex[:12]}"
        directory = self._root / id
        directory.mkdir(parents=True, mode=0o700)
        said = {"kind": kind, "token": token, "ended": False, "process": 0}
        _write(directory / "node.json", said)
        resources = dict(self._kinds[kind])
        command = [
            sys.executable, "-m", "kernel_autoscaler.loopback_node", str(directory),
            sys.executable, "-m", "kernel.cli.main", "start", "--address", str(join["address"]), "--port", "0",
            "--num-cpus", str(resources.pop("CPU", 0.0)), "--num-gpus", str(resources.pop("GPU", 0.0)),
            "--object-store-memory", self._store, "--provider-id", id, "--temp-dir", self._directory, "--json",
        ]  # fmt: skip
        if resources:
            command += ["--resources", json.dumps(resources)]
        environment = {**os.environ, "KERNEL_TOKEN": str(join["token"]), _ID: id}
        try:
            with open(directory / "start.log", "wb") as log:
                process = subprocess.Popen(
                    command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
        except OSError as error:
            shutil.rmtree(directory, ignore_errors=True)
            raise NodeProviderError(f"no more processes can be started here: {error}", code=CAPACITY) from None
        _write(directory / "node.json", {**said, "process": process.pid})
        return id

    def _check(self, kind: str) -> None:
        if kind not in self._kinds:
            known = ", ".join(self._kinds)
            raise NodeProviderError(f"the node provider 'loopback' has no kind {kind!r}; it has {known}", code=INVALID)


def _state(directory: Path, said: Mapping[str, Any]) -> tuple[str, str]:
    """Return the state of a node, "" once it is gone, and what is wrong with it."""
    if has_mark(said["process"], _ID, directory.name):
        if said["ended"]:
            return "stopping", ""
        return ("running" if _agent_pid(directory) else "starting"), ""
    if said["ended"] or _agent_pid(directory):
        return "", ""
    if not said["process"]:
        return "starting", ""  # It is being made, by another process perhaps.
    log = (directory / "start.log").read_text(errors="replace").strip().splitlines()
    return "failed", log[-1] if log else "kernel start has ended without a word"


def _token_of(file: Path) -> str:
    return str(json.loads(file.read_text())["token"])


def _agent_pid(directory: Path) -> int:
    try:
        return int(json.loads((directory / "start.json").read_text())["agent_pid"])
    except (OSError, ValueError, KeyError):
        return 0


def _write(file: Path, said: Mapping[str, Any]) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(said))
    new.replace(file)
