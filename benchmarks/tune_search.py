"""How good tune's own searchers are, beside a well-known library of the same kind at the same budget.

python -m benchmarks.tune_search [--seeds N] [--only WORD] [--keep FILE] [--write]

Needs `pip install optuna scikit-optimize cma hpbandster ConfigSpace scikit-learn`. Each searcher proposes as many
configurations as its budget says, one after the other; what counts is the best loss, the median over seeds. "ok" is a
median that is at most 5 % worse than the reference's. With `--keep` what was measured is kept in a file, and not
measured again; with `--write` the table goes into docs/tune-search-quality.md.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.tune_functions import FUNCTIONS, Function
from benchmarks.tune_references import REFERENCES

TOLERANCE = 0.05
DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "tune-search-quality.md"


def own(name: str, function: Function, seed: int) -> Any:
    """Make one of tune's searchers."""
    from kernel_tune import searchers

    return getattr(searchers, name)(function.space, metric="loss", mode="min", seed=seed)


def ask_and_tell(name: str, function: Function, seed: int, budget: int) -> float:
    """Run one of tune's searchers; return the best loss."""
    searcher = own(name, function, seed)
    evaluate = function.seeded(seed)
    best = math.inf
    for number in range(budget):
        trial = str(number)
        config = searcher.suggest(trial)
        shown, true = evaluate(config)
        searcher.on_trial_complete(trial, {"loss": shown})
        best = min(best, true)
    return best


# A searcher of tune's, its reference, how many configurations each may try, with how many seeds.
PAIRS: list[tuple[str, str, int, int]] = [
    ("TPESearch", "optuna TPE", 100, 20),
    ("BOHBSearch", "hpbandster BOHB", 100, 7),
    ("GPSearch", "scikit-optimize GP", 40, 20),
    ("CMAESSearch", "optuna CMA-ES", 200, 31),
    ("CMAESSearch", "cma", 200, 101),
]


def measure(runner: Callable[[Function, int, int], float], function: Function, seeds: int, budget: int,
            done: list[float]) -> list[float]:  # fmt: skip
    """Add to the losses that are there until there is one for each seed."""
    for seed in range(len(done), seeds):
        done.append(runner(function, seed, budget))
    return done[:seeds]


def compare(
    function: Function, pair: tuple[str, str, int, int], most_seeds: int, kept: dict[str, list[float]]
) -> list[Any]:
    """Return a row of the table."""
    name, reference, budget, seeds = pair
    seeds = min(seeds, function.most_seeds, most_seeds)
    medians = []
    began = time.perf_counter()
    for label, runner in (
        (name, lambda f, seed, n: ask_and_tell(name, f, seed, n)),
        (reference, REFERENCES[reference]),
    ):
        losses = kept.setdefault(f"{function.name}|{label}|{budget}", [])
        medians.append(statistics.median(measure(runner, function, seeds, budget, losses)))
    ours, theirs = medians
    good = ours <= theirs + TOLERANCE * abs(theirs)
    row = [function.name, name, f"{ours:.4g}", reference, f"{theirs:.4g}", budget, seeds, "ok" if good else "worse"]
    print(
        "{:22} {:12} {:>10}  {:20} {:>10}  {:4} {:3} {:6}".format(*row),
        f"{time.perf_counter() - began:.0f} s",
        flush=True,
    )
    return row


def write(rows: list[list[Any]]) -> None:
    """Write the table as Markdown."""
    lines = [
        "# How good the searchers are",
        "",
        "Medians of the best loss over the seeds (smaller is better), each searcher beside a known library of",
        "its kind with the same number of configurations, one after the other. Made by",
        "`python -m benchmarks.tune_search --write`; what the functions are is in",
        '`benchmarks/tune_functions.py`. "ok" is at most 5 % worse than the reference\'s median.',
        "",
        "| function | searcher | median | reference | median | budget | seeds | |",
        "|---|---|---|---|---|---|---|---|",
        *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows),
    ]
    DOCUMENT.write_text("\n".join(lines) + "\n")


def main() -> int:
    """Compare, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1000, help="at most so many, for a quick look")
    parser.add_argument("--only", default="", help="of a function, a searcher or a reference")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = json.loads(arguments.keep.read_text()) if arguments.keep and arguments.keep.exists() else {}
    rows = []
    for pair in PAIRS:
        for function in FUNCTIONS:
            if arguments.only in f"{function.name} {pair[0]} {pair[1]}" and function.suits(pair[1]):
                rows.append(compare(function, pair, arguments.seeds, kept))
                if arguments.keep:
                    arguments.keep.write_text(json.dumps(kept))
    if arguments.write:
        write(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
