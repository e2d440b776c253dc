"""A stand-in for a kubelet: it runs the nodes of pods as processes on this machine, with what their specs say."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from plugins.provider_kubernetes.tests.stand_in_api import StandInApi


class LocalKubelet:
    """Runs the pods of `api`, each with its directory below `root`, until `close`."""

    def __init__(self, api: StandInApi, root: Path) -> None:
        self._api = api
        self._root = root
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="kubelet", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all that runs."""
        with self._api.changed:
            self._closed = True
            self._api.changed.notify_all()
        self._thread.join()
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            process.wait(60)

    def _work(self) -> None:
        while True:
            with self._api.changed:
                if self._closed:
                    return
                pods = {pod["metadata"]["name"]: pod for pod in self._api.objects("pods")}
                for name, pod in pods.items():
                    if name not in self._processes and not pod["metadata"].get("deletionTimestamp"):
                        self._processes[name] = self._begin(pod)
                        self._api.set_status(name, {"phase": "Running", "podIP": "127.0.0.1"})
                for name, process in self._processes.items():
                    leaves = name not in pods or pods[name]["metadata"].get("deletionTimestamp")
                    if leaves and process.poll() is None:
                        process.send_signal(signal.SIGTERM)
                    elif not leaves and process.poll() and pods[name]["status"]["phase"] == "Running":
                        self._api.set_status(name, {"phase": "Failed", "reason": "Error"})
                self._api.changed.wait(1.0)

    def _begin(self, pod: dict[str, Any]) -> subprocess.Popen[bytes]:
        (container,) = pod["spec"]["containers"]
        directory = self._root / str(len(self._processes))  # short: sockets are below it
        directory.mkdir()
        variables = {one["name"]: self._value(pod, one) for one in container["env"]}
        assert container["command"][0] == "kernel"
        command = [sys.executable, "-m", "kernel.cli.main", *container["command"][1:]]
        with open(directory / "log", "wb") as log:
            return subprocess.Popen(
                command, env={**os.environ, **variables, "KERNEL_TMPDIR": str(directory)}, stdout=log, stderr=log
            )

    def _value(self, pod: dict[str, Any], variable: dict[str, Any]) -> str:
        source = variable.get("valueFrom", {})
        if "secretKeyRef" in source:
            wanted = source["secretKeyRef"]
            (secret,) = [one for one in self._api.objects("secrets") if one["metadata"]["name"] == wanted["name"]]
            return base64.b64decode(secret["data"][wanted["key"]]).decode()
        if "fieldRef" in source:
            assert source["fieldRef"] == {"fieldPath": "metadata.name"}
            return str(pod["metadata"]["name"])
        return str(variable["value"])
