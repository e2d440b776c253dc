"""Processes of ours that are told their settings over standard input, and say by a pipe when they serve."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import IO

from kernel.node.config import AgentConfig
from kernel.node.processes import command_of


def start_child(
    module: str,
    config: AgentConfig,
    errors: str | int,
    environment: Mapping[str, str] | None = None,
    inherited: Sequence[int] = (),
) -> tuple[subprocess.Popen[bytes], int]:
    """Run `main` of a module, as `kernel.node.boot` describes; return the process and the pipe on which it reports.

    What it writes is added to the file `errors` in the session's logs, or to a descriptor. The child notices when its
    standard input is closed. It has the descriptors `inherited`, which are its further arguments. Raises OSError when
    no process can be started.
    """
    reader, writer = os.pipe()
    try:
        with nullcontext(errors) if isinstance(errors, int) else open_log(config, errors) as file:
            process = subprocess.Popen(
                command_of(module, *map(str, [writer, *inherited])),
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                pass_fds=[writer, *inherited],
                env=environment,
                start_new_session=True,
            )
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # one that is dead already is found out by its silence
        process.stdin.write(pickle.dumps(config))
        process.stdin.flush()
    return process, reader


def open_log(config: AgentConfig, name: str) -> IO[bytes]:
    """Return a file of the session's logs, to add to."""
    return open(os.path.join(config.directory, "logs", name), "ab")


def let_go(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe by which a child knows that who started it lives."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
