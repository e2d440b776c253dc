"""Starting an agent from a program or the command line."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
import time
from contextlib import suppress

from kernel.node.config import AgentConfig
from kernel.node.sessions import describe
from kernel_spec.errors import SessionEndedError

START_SECONDS = 30.0


def start_agent(config: AgentConfig, stays: bool) -> subprocess.Popen[bytes]:
    """Start an agent process and return at once; `await_agent` tells when it serves.

    Raises SessionEndedError when no process can be started.
    """
    reader, writer = os.pipe()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        with open(os.path.join(config.directory, "logs", "agent.err"), "ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "kernel.node.boot", str(writer)],
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                pass_fds=[writer],
                env=environment,
                start_new_session=True,
            )
    except OSError as error:
        os.close(reader)
        raise SessionEndedError(f"the node agent can't be started with {sys.executable}: {error.strerror}") from error
    finally:
        os.close(writer)
    describe(config.directory, process.pid, stays)
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:  # one that is dead already is found out by `await_agent`
        process.stdin.write(pickle.dumps(config))
    process.ready_descriptor = reader  # type: ignore[attr-defined]
    return process


def await_agent(process: subprocess.Popen[bytes], directory: str) -> None:
    """Wait until the agent serves. Raises its error when it can't start, SessionEndedError when it says nothing."""
    reader: int = process.ready_descriptor  # type: ignore[attr-defined]
    deadline = time.monotonic() + START_SECONDS
    data = b""
    try:
        while True:
            ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                process.kill()
                raise SessionEndedError(
                    f"the node agent did not start within {START_SECONDS:.0f} s{_last_words(directory)}"
                )
            chunk = os.read(reader, 1 << 16)
            if not chunk:
                break
            data += chunk
    finally:
        os.close(reader)
    if not data:
        code = process.wait()
        raise SessionEndedError(f"the node agent ended with exit code {code} while starting{_last_words(directory)}")
    error = pickle.loads(data)
    if error is not None:
        process.wait()
        raise error


def _last_words(directory: str) -> str:
    try:
        with open(os.path.join(directory, "logs", "agent.err"), encoding="utf-8", errors="replace") as file:
            lines = file.read().strip().splitlines()[-5:]
    except OSError:
        return ""
    return ":\n  " + "\n  ".join(lines) if lines else ""
