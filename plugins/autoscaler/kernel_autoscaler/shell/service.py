"""The service of the head: it starts the autoscaler's process, and ends it with the head."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernel_autoscaler.configuration import read_configuration
from kernel_spec.errors import OptionError
from kernel_spec.services import HeadInfo

STOP_SECONDS = 1.5
FIRST_SECONDS, MOST_SECONDS = 1.0, 60.0
"""Seconds after which a process that has ended by itself is started again: twice as many each time, and at most."""


class AutoscalerService:
    """Runs the autoscaler in a process of its own. Its option `config` is a TOML file, or a mapping like one."""

    name = "autoscaler"

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def start(self, head: HeadInfo) -> Mapping[str, Any]:
        """Start the process. Raises OptionError without a configuration, or for what is wrong in it."""
        given = head.options.get("config")
        if not given:
            raise OptionError(
                "the autoscaler needs a configuration: KERNEL_OPTION_AUTOSCALER_CONFIG=FILE.toml, or "
                'plugin_options={"autoscaler": {"config": {"provider": ...}}}'
            )
        configuration = read_configuration(given)
        config = dict(given) if isinstance(given, Mapping) else str(Path(given).absolute())
        order = json.dumps({"session": head.session_directory, "config": config}) + "\n"
        log = Path(head.session_directory) / "logs" / "autoscaler.log"
        threading.Thread(target=self._keep_running, args=(order, log), name="autoscaler", daemon=True).start()
        return {"provider": configuration.provider, "log": str(log)}

    def stop(self) -> None:
        """End the process; machines stay, and the next head's autoscaler knows them."""
        self._stopped.set()
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _keep_running(self, order: str, log: Path) -> None:
        """Start the process, and start it again when it ends by itself."""
        pause = FIRST_SECONDS
        while not self._stopped.is_set():
            begun = time.monotonic()
            with self._lock:
                if self._stopped.is_set():
                    return
                process = self._process = _begin(order, log)
            process.wait()
            pause = FIRST_SECONDS if time.monotonic() - begun > MOST_SECONDS else min(2 * pause, MOST_SECONDS)
            self._stopped.wait(pause)


def _begin(order: str, log: Path) -> subprocess.Popen[str]:
    """Start the process and give it its order. It ends when its input does, which is when this process ends."""
    with open(log, "ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "kernel_autoscaler.shell.process"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            text=True,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name != "KERNEL_ADDRESS"},
        )
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.write(order)
        process.stdin.flush()
    return process
