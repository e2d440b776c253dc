"""Traffic through everything that may happen to an application of Serve: is any request lost?

python -m benchmarks.serve_faults [--only WORD] [--rate 200] [--calls 50] [--json]

A client in a process of its own sends `--rate` HTTP requests a second on kept connections, one in ten of them a POST,
and `--calls` calls of a handle that may run again; each has an id, and the answer must be that of its id. Meanwhile
something happens (`plugins/serve/tests/scenes.py`), in a new cluster each time. A failure is whatever a user would call
one: only a POST that a killed process had may be answered by 503 with Retry-After (*503*), and only where the process
with the client's connection was killed may that break: the client repeats GETs (*reconnected*), and can't POSTs
(*broken*).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from plugins.serve.tests.scenes import BREAKING, SCENES, Site, site

ROOT = Path(__file__).resolve().parent.parent
AROUND_SECONDS = 1.5
"""Traffic before and after what happens."""


class Client:
    """The client's process."""

    def __init__(self, place: Site, rate: float, calls: float) -> None:
        words = {"session": place.session, "addresses": place.addresses, "rate": rate, "calls": calls}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.serve_load", json.dumps(words)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "begun\n":
            raise SystemExit("the client could not begin")

    def end(self) -> dict[str, Any]:
        """End the traffic, and return what came of it."""
        said, _ = self._process.communicate(timeout=120)
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
        return found


def measure(name: str, rate: float, calls: float) -> dict[str, Any]:
    """Return what came of the traffic while `name` happened."""
    happens, nodes = SCENES[name]
    with site(nodes) as place:
        client = Client(place, rate, calls)
        time.sleep(AROUND_SECONDS)
        begun, problem = time.monotonic(), ""
        try:
            happens(place)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        took = time.monotonic() - begun
        time.sleep(AROUND_SECONDS)
        repeated = place.retried()
        return {"name": name, "seconds": round(took, 1), "repeated": repeated, "problem": problem, **client.end()}


def is_good(found: dict[str, Any]) -> bool:
    """Return whether nothing was lost that need not be."""
    http, handle = found["http"], found["handle"]
    if found["problem"] or http["failed"] or handle["failed"]:
        return False
    if found["name"] not in BREAKING and (http["broken"] or http["reconnected"]):
        return False
    return "kill" in found["name"] or not http["unavailable"]


def line(found: dict[str, Any]) -> str:
    """Return a row of the table."""
    http, handle = found["http"], found["handle"]
    failed = {**http["failed"], **{f"handle: {what}": number for what, number in handle["failed"].items()}}
    cells = [
        found["name"], http["sent"], http["answered"], found["repeated"], http["unavailable"], http["reconnected"],
        http["broken"], handle["sent"], handle["answered"],
        ", ".join(f"{number} {what}" for what, number in failed.items()) or found["problem"] or 0,
        f"{http['gap_ms']:.0f} ms", f"{http['p50_ms']:.0f} ms", f"{http['p99_ms']:.0f} ms",
    ]  # fmt: skip
    return f"| {' | '.join(str(cell) for cell in cells)} |"


HEAD = (
    "| what happens | HTTP sent | answered 200 | repeated by the proxy | 503 | reconnected | broken | calls sent "
    "| answered | failed | longest gap | p50 | p99 |\n|" + "---|" * 13
)


def main() -> int:
    """Let it all happen, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="only what has this word in its name")
    parser.add_argument("--rate", type=float, default=200.0, metavar="R", help="HTTP requests a second (default: 200)")
    parser.add_argument("--calls", type=float, default=50.0, metavar="R", help="handle calls a second (default: 50)")
    parser.add_argument("--json", action="store_true", help="lines of JSON instead of a table")
    given = parser.parse_args()
    if not given.json:
        print(HEAD, flush=True)
    bad = 0
    for name in [each for each in SCENES if given.only in each]:
        found = measure(name, given.rate, given.calls)
        bad += not is_good(found)
        print(json.dumps(found) if given.json else line(found), flush=True)
        for example in (*found["http"]["examples"], *found["handle"]["examples"], found["problem"]):
            if example:
                print(example, file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
