"""Build parts of runtime environments beside the agent's loop: each in a process of its own, with a deadline."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from kernel.logs import Logger
from kernel_processes.node.build_cache import BuildCache, EnvironmentPart
from kernel_processes.node.build_process import BuildOrder
from kernel_processes.system.children import open_log, start_child
from kernel_processes.system.processes import descendants_of, kill
from kernel_processes.system.starting import why_no_process
from kernel_processes.transport.background import Background
from kernel_processes.transport.reactor import Reactor
from kernel_spec.environments import EnvironmentBuilder, WorkerStart
from kernel_spec.errors import RuntimeEnvError

LOG = "environments.log"
CLOSE_SECONDS = 2.0
TRIM_SECONDS = 10.0
"""Seconds between two looks for built parts that can be removed, because their last workers have ended."""
_AT_A_TIME = 1 << 16

Then = Callable[[WorkerStart | RuntimeEnvError], None]


class EnvironmentBuilds:
    """Builds each part once, below `directory` (the session's). Its methods are called from the loop.

    `in_use` returns the parts in which workers run or start. `shared` are the directories that workers must see,
    the session's among them.
    """

    def __init__(
        self,
        directory: str,
        reactor: Reactor,
        in_use: Callable[[], Collection[EnvironmentPart]],
        shared: tuple[str, ...],
    ) -> None:
        self._session = directory
        self._shared = shared
        self._directory = os.path.join(directory, "environments")
        self._reactor = reactor
        self._in_use = in_use
        self._cache = BuildCache()
        self._waiting: dict[EnvironmentPart, list[Then]] = {}
        self._limits: dict[str, float] = {}
        self._removing = Background(reactor, "environments")
        self._removed = 0
        self._log = Logger("kernel.node")

    def build(
        self,
        part: EnvironmentPart,
        builder: EnvironmentBuilder,
        label: str,
        prepared: Any,
        packages: Mapping[str, str],
        then: Then,
    ) -> None:
        """Call `then` with the start of workers when the part is built, or with the error."""
        answer = self._cache.want(part, self._reactor.clock())
        if not isinstance(answer, bool):
            then(answer)
            return
        self._waiting.setdefault(part, []).append(then)
        if not answer:
            return
        if not self._limits:
            self._reactor.call_later(TRIM_SECONDS, self._trim_later)
        self._limits[part.field] = builder.cache_bytes
        place = os.path.join(self._directory, part.name)
        order = BuildOrder(self._session, builder, label, prepared, place, packages, self._shared)
        try:
            with open_log(self._session, LOG) as log:
                process, reader = start_child("kernel_processes.node.build_process", order, log.fileno())
        except Exception as error:  # No process could start, or the builder can't be pickled.
            reason = why_no_process(error) if isinstance(error, OSError) else f"it can't be sent there: {error!r}"
            self._end(part, RuntimeEnvError(f"{label} can't build in a process of its own: {reason}"))
            return
        self._log.info("building a runtime_env", field=part.field, directory=place, pid=process.pid)
        self._await(part, label, builder.build_seconds, process, reader)

    def close(self) -> None:
        """Stop removing parts; building processes are ended with the others of the node."""
        self._removing.close(CLOSE_SECONDS)

    def _trim_later(self) -> None:
        self._trim()
        self._reactor.call_later(TRIM_SECONDS, self._trim_later)

    def _trim(self) -> None:
        """Remove unused parts for which there is no room."""
        for field, limit in self._limits.items():
            for part in self._cache.evict(field, limit, self._in_use()):
                self._remove(part)

    def _await(
        self, part: EnvironmentPart, label: str, seconds: float, process: subprocess.Popen[bytes], reader: int
    ) -> None:
        """Read what the process reports; end it when that takes longer than `seconds`."""
        data = bytearray()
        os.set_blocking(reader, False)
        late = False

        def on_ready(events: int) -> None:
            with suppress(BlockingIOError):
                while chunk := os.read(reader, _AT_A_TIME):
                    data.extend(chunk)
                finish()

        def finish() -> None:
            self._reactor.unregister(reader)
            os.close(reader)
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.close()  # It has reported: if it lingers, this ends it.
            self._end(part, self._outcome(label, bytes(data), process, seconds if late else 0.0))

        def deadline() -> None:
            nonlocal late
            if part in self._waiting and process.returncode is None:
                late = True
                for pid in (process.pid, *descendants_of(process.pid)):
                    kill(pid)

        self._reactor.register(reader, on_ready)
        self._reactor.call_later(seconds, deadline)

    def _outcome(
        self, label: str, data: bytes, process: subprocess.Popen[bytes], late: float
    ) -> tuple[WorkerStart, float] | RuntimeEnvError:
        code = process.wait()
        if data and not late:
            outcome: tuple[WorkerStart, float] | RuntimeEnvError = pickle.loads(data)
            return outcome
        log = os.path.join(self._session, "logs", LOG)
        what = f"took longer than {late:g} s and was ended" if late else f"ended with exit code {code}"
        return RuntimeEnvError(f"the process in which {label} builds {what}; {log} has what it wrote")

    def _end(self, part: EnvironmentPart, outcome: tuple[WorkerStart, float] | RuntimeEnvError) -> None:
        now = self._reactor.clock()
        if isinstance(outcome, RuntimeEnvError):
            self._log.warning("a runtime_env could not be built", field=part.field, error=str(outcome))
            self._cache.failed(part, outcome, now)
        else:
            self._cache.built(part, *outcome, now)
        for then in self._waiting.pop(part):
            then(outcome if isinstance(outcome, RuntimeEnvError) else outcome[0])
        self._trim()

    def _remove(self, part: EnvironmentPart) -> None:
        """Remove what was built; under another name, so that it can be built anew meanwhile."""
        self._removed += 1
        old = os.path.join(self._directory, f".removed-{self._removed}")
        with suppress(OSError):
            os.rename(os.path.join(self._directory, part.name), old)
            self._log.info("an unused runtime_env is removed", field=part.field, name=part.name)
            self._removing.do(lambda: shutil.rmtree(old, ignore_errors=True))
