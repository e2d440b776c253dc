"""Many random programs over references, one after another: `python -m benchmarks.chaos.programs --count 500 --seed 1`.

Nothing else disturbs them but the deaths of holders, so that everything must be right, and after each one every store
and every table must be empty.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.chaos.references import RandomProgram
from benchmarks.chaos.soak import wait_until_empty
from benchmarks.outcome import Hang, Outcome
from kernel.testing.cluster import Cluster


def main(arguments: list[str] | None = None) -> int:
    """Run programs, report, and return 1 when anything was wrong or leaked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos.programs", description=(__doc__ or "")[:70])
    parser.add_argument("--count", type=int, default=100, help="how many programs (default: 100)")
    parser.add_argument("--steps", type=int, default=80, help="how many steps each (default: 80)")
    parser.add_argument("--seed", type=int, default=0, help="the first of their seeds (default: 0)")
    given = parser.parse_args(arguments)
    outcome, leaked = Outcome(), 0
    with Cluster(num_cpus=1) as cluster:
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        cluster.connect(log_to_driver=False)
        for seed in range(given.seed, given.seed + given.count):
            program = RandomProgram(seed, outcome, given.steps, deaths=bool(seed % 2), undisturbed=True)
            try:
                program.run()
            except Hang:
                break
            if left := wait_until_empty():
                leaked += 1
                print(f"program {seed} leaked:", *left, *program.history, sep="\n    ")
            if outcome.wrong or leaked:
                break
    for item in outcome.wrong:
        print(f"wrong: {item}")
    print(f"results checked: {outcome.checked:,}, wrong: {len(outcome.wrong)}, leaked: {leaked}")
    return 1 if outcome.wrong or leaked else 0


if __name__ == "__main__":
    sys.exit(main())
