"""Run a worker that has an interpreter of its own, as the program that `interpreter.begin_anew` starts."""

from __future__ import annotations

import pickle
import sys

from kernel_processes.worker import main as worker_main


def main() -> int:
    """Read which worker this is from the descriptor that is the first argument, and serve; return the exit code."""
    with open(int(sys.argv[1]), "rb") as file:
        worker, session = pickle.load(file)
    session["prepared"] = worker_main.prepare(session)
    return worker_main.main(worker, session)
