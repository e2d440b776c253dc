"""Serving: what a request costs, and the same in Ray Serve and on bare uvicorn.

python -m benchmarks.serve [--compare PYTHON] [--only WORD] [--seconds S] [--rounds N]

All systems serve the same, one after the other, to the same client in a process of its own; medians are shown.
`--compare` is the Python of an environment with ray[serve].
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CLIENT: dict[str, tuple[str, list[str]]] = {
    "1 connection": ("/", ["--connections", "1"]),
    "8 connections": ("/", ["--connections", "8"]),
    "16 connections": ("/", ["--connections", "16"]),
    "chain of three, 1 connection": ("/chain", ["--connections", "1"]),
    "chain of three, 8 connections": ("/chain", ["--connections", "8"]),
    "200 streams of 1 ms a token": ("/stream", ["--connections", "200", "--stream"]),
    "20 streams of 1 ms a token": ("/stream", ["--connections", "20", "--stream"]),
    "10 MB bodies": ("/length", ["--connections", "1", "--bytes", str(10 << 20)]),
}
HALF = "half load"
PATIENCE_SECONDS = 30.0
"""How much longer than it should a row may take."""
Figures = dict[str, dict[str, float]]


class System:
    """One system under test, in a process of its own."""

    def __init__(self, name: str, python: str, port: int) -> None:
        self.name = name
        self._port = port
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.serve_systems", name, str(port)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self.first = self._read()

    def ask(self, word: str) -> Any:
        """Have it measure something itself."""
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        return self._read()

    def client(self, path: str, options: list[str], seconds: float) -> dict[str, float]:
        """Measure it from outside."""
        url = f"http://127.0.0.1:{self._port}{path}"
        command = [sys.executable, "-m", "benchmarks.serve_client", url, "--seconds", str(seconds), *options]
        try:
            printed = subprocess.check_output(command, cwd=ROOT, text=True, timeout=seconds + PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            return {"not done in seconds": seconds + PATIENCE_SECONDS}
        found: dict[str, float] = json.loads(printed)
        return found

    def end(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.write("end\n")
        self._process.stdin.close()
        self._process.wait(60)

    def _read(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit(f"{self.name} ended before it had answered")


def measure(name: str, python: str, port: int, seconds: float, only: str) -> Figures:
    """Return what one system gives, by row."""
    system = System(name, python, port)
    found: Figures = {"start": system.first}
    for row, (path, options) in CLIENT.items():
        if only in row:
            found[row] = system.client(path, options, seconds)
    if "per_second" in found.get("8 connections", {}):
        rate = str(found["8 connections"]["per_second"] / 2)
        found[HALF] = system.client("/", ["--connections", "8", "--rate", rate], seconds)
    for word in ("handles", "elastic"):
        if name != "uvicorn" and only in word:
            found[word] = system.ask(word)
    system.end()
    return found


def median(rounds: list[Figures]) -> Figures:
    """Return the medians of several rounds."""
    return {
        row: {key: statistics.median(each[row][key] for each in rounds if key in each[row]) for key in rounds[0][row]}
        for row in rounds[0]
    }


def show(figures: dict[str, Figures]) -> None:
    """Print a table in Markdown."""
    print("| | " + " | ".join(figures) + " |\n|---|" + "---|" * len(figures))
    rows = list(dict.fromkeys(row for each in figures.values() for row in each))
    for row in rows:
        cells = []
        for each in figures.values():
            found = each.get(row)
            cells.append(", ".join(f"{key} {value:,.4g}" for key, value in found.items()) if found else "")
        print(f"| {row} | " + " | ".join(cells) + " |")


def main() -> None:
    """Measure all, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", help="the Python of an environment with ray[serve]")
    parser.add_argument("--only", default="", help="only the rows with this word")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    systems = {"kernel": sys.executable, "uvicorn": sys.executable}
    if given.compare:
        systems["ray"] = given.compare
    rounds: dict[str, list[Figures]] = {name: [] for name in systems}
    for _ in range(given.rounds):
        for number, (name, python) in enumerate(systems.items()):
            rounds[name].append(measure(name, python, 18100 + number, given.seconds, given.only))
    show({name: median(each) for name, each in rounds.items()})


if __name__ == "__main__":
    main()
