"""Start child processes, which read their settings from standard input and report on a pipe when they serve."""

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

    The child's output goes to the descriptor `errors`. The child notices when its standard input is closed. It inherits
    the descriptors `inherited`, whose numbers are its further arguments. Raises OSError when no process can be started.
    """
    pickled = pickle.dumps(settings)
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
    with suppress(BrokenPipeError):  # A dead child is noticed by its closed report pipe.
        process.stdin.write(pickled)
        process.stdin.flush()
    return process, reader


def open_log(directory: str, name: str) -> IO[bytes]:
    """Open a log file of the session in `directory` for appending. Raises OSError."""
    return open(os.path.join(directory, "logs", name), "ab")


def let_go(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe whose end tells a child that its parent has ended."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
