"""Runs a command beside processes that do nothing but use the processor: `python -m benchmarks.busy -- pytest`.

How a program behaves on a machine that is busy says more than how it does on one that is quiet.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from contextlib import ExitStack

BUSY = "while True: pass"


def main() -> int:
    """Run the command, end the busy processes, and return the exit code of the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.busy", description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=8, help="how many are busy (default: 8)")
    parser.add_argument("--times", type=int, default=1, help="how often the command is run; the first failure ends it")
    parser.add_argument("command", nargs="+", help="the command, after --")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with ExitStack() as exits:
        for _ in range(arguments.processes):
            exits.callback(_end, subprocess.Popen([sys.executable, "-c", BUSY]))
        for _ in range(arguments.times):
            process = subprocess.Popen(arguments.command)
            exits.callback(_end, process)
            if code := process.wait():
                return code
    return 0


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


if __name__ == "__main__":
    raise SystemExit(main())
