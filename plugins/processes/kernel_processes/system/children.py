"""Start child processes, which read their settings from standard input, and say by a pipe when they serve."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from kernel_processes.system.processes import command_of


def start_child(
    module: str,
    settings: object,
    errors: int,
    environment: Mapping[str, str] | None = None,
    inherited: Sequence[int] = (),
) -> tuple[subprocess.Popen[bytes], int]:
    """Run `main` of a module, as `child_program` describes; return the process and the pipe on which it reports.

    What it writes goes to the descriptor `errors`. The child notices when its standard input is closed. It has the
    descriptors `inherited`, which are its further arguments. Raises OSError when no process can be started.
    """
    told = pickle.dumps(settings)
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen(
            command_of(module, *map(str, [writer, *inherited])),
            stdin=subprocess.PIPE,
            stdout=errors,
            stderr=errors,
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
        process.stdin.write(told)
        process.stdin.flush()
    return process, reader


def open_log(directory: str, name: str) -> IO[bytes]:
    """Return a file of the logs of the session in `directory`, to add to."""
    return open(os.path.join(directory, "logs", name), "ab")


def let_go(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe by which a child knows that its parent lives."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
