"""Faults of every kind at random moments, on a cluster at work: `python -m benchmarks.chaos --minutes 10 --seed 1`.

Several nodes on this machine run work whose results are known. Meanwhile processes and nodes are killed, paused and
slowed, the network is cut, the head dies, the clock jumps and a disk gets full. A value must be right, an error must be
one that is documented for that work, nothing may hang, and nothing may be left behind.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile

from benchmarks.chaos.soak import soak
from benchmarks.outcome import Outcome


def main(arguments: list[str] | None = None) -> int:
    """Soak, report, and return 1 when anything was wrong or leaked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="repeats the same work and choices (default: 0)")
    parser.add_argument("--every", type=float, default=1.0, help="mean seconds between two faults (default: 1)")
    parser.add_argument("--only", action="append", default=[], metavar="KIND", help="a kind of fault; may be repeated")
    parser.add_argument("--logs", metavar="DIR", help="keep the nodes' logs there when something was wrong")
    given = parser.parse_args(arguments)
    outcome, leaked = Outcome(logs=given.logs or ""), ["the soak did not come to its end"]
    folder = tempfile.mkdtemp(prefix="kc-", dir="/tmp")
    try:
        leaked = soak(given.minutes * 60, given.seed, given.every, outcome, folder, given.only)
    except AssertionError as error:
        leaked = [str(error)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for label, counts in (
        ("faults", outcome.faults),
        ("right results", outcome.right),
        ("documented errors", outcome.documented),
    ):
        print(f"{label}: " + (", ".join(f"{what} {count:,}" for what, count in sorted(counts.items())) or "none"))
    for label, items in (("wrong", outcome.wrong), ("leaked", leaked)):
        for item in items:
            print(f"{label}: {item}")
    kinds = ", ".join(f"{count} x {kind}" for kind, count in sorted(outcome.faults.items()))
    print(
        f"{given.minutes:g} minutes, seed {given.seed}: faults injected: {outcome.faults.total():,} ({kinds}), "
        f"results checked: {outcome.checked:,}, wrong: {len(outcome.wrong)}, leaked: {len(leaked)}"
    )
    return 1 if outcome.wrong or leaked else 0


if __name__ == "__main__":
    sys.exit(main())
