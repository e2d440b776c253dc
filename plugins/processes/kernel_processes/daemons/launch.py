"""Start an agent from a program or the command line."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernel_processes.node import session_lock
from kernel_processes.node.crash_output import agent_crash_output
from kernel_processes.node.sessions import SessionDirectory, make_session, remove
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.system.children import let_go, open_log, start_child
from kernel_processes.system.standard_descriptors import occupy_standard_descriptors
from kernel_processes.system.starting import why_no_process
from kernel_processes.transport.authentication import TOKEN_VARIABLE, make_token
from kernel_spec.errors import SessionEndedError, UsageError

START_SECONDS = 30.0
"""Total time allowed for an agent to start."""


@contextmanager
def launched(
    configure: Callable[[str, bytes, bool], AgentConfig], stays: bool, given: str | None, token: bytes = b""
) -> Iterator[tuple[SessionDirectory, subprocess.Popen[bytes]]]:
    """Make a session below `given` and start its agent; when the block raises, end the agent and remove the session.

    `given` is the directory for sessions, None for the default. `configure(directory, token, ephemeral)` returns the
    agent's settings. A session that `stays` outlives this program. Without a `token` a new one is made.

    Raises SessionEndedError when the agent can't be started, UsageError when the machine has no null device.
    """
    _check_devices()
    occupy_standard_descriptors()
    token = token or make_token()
    directory = make_session(token, stays, given)
    agent = None
    try:
        agent = start_agent(configure(directory, token, not stays), stays)
        yield SessionDirectory.started(directory, agent.pid), agent
    except BaseException:
        if agent is not None:
            agent.kill()
            agent.wait()
            let_go(agent)
        remove(directory)
        raise


def _check_devices() -> None:
    if not os.path.exists(os.devnull):
        raise UsageError(
            f"there is no {os.devnull} here, without which no process can be started; mount /dev (for a chroot: "
            "`mount --rbind /dev ROOT/dev`)"
        )


def start_agent(config: AgentConfig, stays: bool) -> subprocess.Popen[bytes]:
    """Start an agent process and return at once; `await_agent` waits until it serves.

    Unless the session `stays`, the agent ends when this process has ended or has called `let_go`. It takes over the
    lock of the session's directory. Raises SessionEndedError when no process can be started.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment.pop(TOKEN_VARIABLE, None)
    lock = session_lock.held_descriptor(config.directory)
    try:
        inherited = [lock] if lock is not None else []
        with open_log(config.directory, "agent.err") as errors:
            process, reader = start_child(
                "kernel_processes.daemons.agent_main", config, errors.fileno(), environment, inherited
            )
    except OSError as error:
        raise SessionEndedError(
            f"the node agent can't be started with {sys.executable}: {why_no_process(error)}"
        ) from error
    finally:
        session_lock.let_go(config.directory)
    if stays:
        let_go(process)
    process.ready_descriptor = reader  # type: ignore[attr-defined]
    return process


def await_agent(process: subprocess.Popen[bytes], directory: str) -> None:
    """Wait until the agent serves.

    Raises the error that the agent reports when it can't start, and SessionEndedError when it ends or START_SECONDS
    pass without a report.
    """
    reader: int = process.ready_descriptor  # type: ignore[attr-defined]
    deadline = time.monotonic() + START_SECONDS
    data = b""
    try:
        while True:
            ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                process.kill()
                raise SessionEndedError(
                    f"the node agent did not start within {START_SECONDS:.0f} s{agent_crash_output(directory)}"
                )
            chunk = os.read(reader, 1 << 16)
            if not chunk:
                break
            data += chunk
    finally:
        os.close(reader)
    if not data:
        code = process.wait()
        raise SessionEndedError(
            f"the node agent ended with exit code {code} while starting{agent_crash_output(directory)}"
        )
    error = pickle.loads(data)
    if error is not None:
        process.wait()
        raise error
