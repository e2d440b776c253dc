"""How well algorithms learn: all experiments that ship (`kernel_rllib/tuned/*.yaml`), by what they say they reach.

python -m benchmarks.rllib_learning [NAMES] [--seeds N] [--first SEED] [--jobs N]

A seed passes if the mean return of 100 episodes, played after training by the best known actions, reaches what the
file's `pass` says. Names are those of files, or what they begin with; all without any. Steps are counted, not seconds,
and the same seed gives the same returns on the same kind of processor.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from kernel_rllib.experiments.checking import checked, judged
from kernel_rllib.experiments.experiment import Experiment
from kernel_rllib.experiments.tuned import tuned_experiment, tuned_names


def chosen(names: Iterable[str]) -> list[Experiment]:
    """Return the experiments whose names begin with one of these, or all where there are none."""
    wanted = tuple(name.lower() for name in names)
    found = [tuned_experiment(name) for name in tuned_names() if not wanted or name.startswith(wanted)]
    return [experiment for experiment in found if experiment.passing is not None]


def report(experiments: list[Experiment], seeds: range, jobs: int, show: Callable[[str], None]) -> bool:
    """Run all seeds of all experiments, show two lines for each, and return whether all passed."""
    passed = True
    with ProcessPoolExecutor(jobs) as pool:
        for experiment in experiments:
            is_enough, lines = judged(experiment, list(pool.map(partial(checked, experiment), seeds)))
            passed &= is_enough
            show("\n".join(lines))
    return passed


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="experiments, or what their names begin with")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2, help="how many seeds run at the same time")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    if not report(chosen(given.names), seeds, given.jobs, lambda line: print(line, flush=True)):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
