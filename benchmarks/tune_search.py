"""How good tune's own searchers are, beside a well-known library of the same kind at the same budget.

python -m benchmarks.tune_search [--seeds N] [--only WORD] [--keep FILE [--measured]] [--write]

Needs `pip install optuna scikit-optimize cma hpbandster ConfigSpace scikit-learn`. Each searcher proposes as many
configurations as its budget says, one after the other; what counts is the best loss, the median over seeds. "ok" is a
median that is at most 5 % worse than the reference's. With `--keep` what was measured is kept in a file, and not
measured again; with `--measured`, too, rows that lack something in this file are left out, so nothing is measured.
With `--write` the rows go into docs/tune-search-quality.md, where others stay as they are.
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
TITLE = "# How good the searchers are"
HEAD = "| function | searcher | median | reference | median | budget | seeds | |"
ABOUT = """
Medians of the best loss over the seeds (smaller is better), each searcher beside a known library of
its kind with the same number of configurations, one after the other. Made by
`python -m benchmarks.tune_search --write`; what the functions are is in
`benchmarks/tune_functions.py`. "ok" is at most 5 % worse than the reference's median.
"""
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
    ("BOHBSearch", "hpbandster BOHB", 100, 20),
    ("GPSearch", "scikit-optimize GP", 40, 20),
    ("CMAESSearch", "optuna CMA-ES", 200, 31),
    ("CMAESSearch", "cma", 200, 101),
]


class Kept:
    """The losses by function, searcher and budget, one for each seed; with a `path`, those of former runs too."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.losses: dict[str, list[float]] = json.loads(path.read_text()) if path and path.exists() else {}

    def save(self) -> None:
        """Write the file anew, so that whoever stops the program loses at most one seed."""
        if self._path:
            partial = self._path.with_suffix(".partial")
            partial.write_text(json.dumps(self.losses))
            partial.replace(self._path)


def measure(runner: Callable[[Function, int, int], float], function: Function, seeds: int, budget: int,
            done: list[float], keep: Callable[[], None]) -> list[float]:  # fmt: skip
    """Add to the losses that are there until there is one for each seed, and keep each as soon as it is there."""
    for seed in range(len(done), seeds):
        done.append(runner(function, seed, budget))
        keep()
    return done[:seeds]


def compare(function: Function, pair: tuple[str, str, int, int], most_seeds: int, kept: Kept) -> list[Any]:
    """Return a row of the table."""
    name, reference, budget, seeds = pair
    seeds = min(seeds, function.most_seeds, most_seeds)
    medians = []
    began = time.perf_counter()
    for label, runner in (
        (name, lambda f, seed, n: ask_and_tell(name, f, seed, n)),
        (reference, REFERENCES[reference]),
    ):
        losses = kept.losses.setdefault(f"{function.name}|{label}|{budget}", [])
        medians.append(statistics.median(measure(runner, function, seeds, budget, losses, kept.save)))
    ours, theirs = medians
    good = ours <= theirs + TOLERANCE * abs(theirs)
    row = [function.name, name, f"{ours:.4g}", reference, f"{theirs:.4g}", budget, seeds, "ok" if good else "worse"]
    print(
        "{:22} {:12} {:>10}  {:20} {:>10}  {:4} {:3} {:6}".format(*row),
        f"{time.perf_counter() - began:.0f} s",
        flush=True,
    )
    return row


def is_kept(function: Function, pair: tuple[str, str, int, int], most_seeds: int, kept: Kept) -> bool:
    """Return whether nothing must be measured for a row."""
    name, reference, budget, seeds = pair
    needed = min(seeds, function.most_seeds, most_seeds)
    there = (len(kept.losses.get(f"{function.name}|{label}|{budget}", [])) for label in (name, reference))
    return min(there) >= needed


def write(rows: list[list[Any]], document: Path = DOCUMENT) -> None:
    """Write the table as Markdown: with these rows, with others that were there, and with the text that follows it."""
    _, _, below = document.read_text().partition(HEAD) if document.exists() else ("", "", "")
    table, _, notes = below.partition("\n\n")
    former = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    by_name = {(row[0], row[1], row[3]): row for row in [*former, *rows]}
    order = [(function.name, pair[0], pair[1]) for pair in PAIRS for function in FUNCTIONS]
    lines = [
        TITLE,
        ABOUT,
        HEAD,
        "|---|---|---|---|---|---|---|---|",
        *("| " + " | ".join(map(str, by_name[name])) + " |" for name in order if name in by_name),
    ]
    document.write_text("\n".join(lines) + "\n" + (f"\n{notes}" if notes else ""))


def main() -> int:
    """Compare, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1000, help="at most so many, for a quick look")
    parser.add_argument("--only", default="", help="of a function, a searcher or a reference")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--measured", action="store_true", help="only rows of which all is in the file that is kept")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = Kept(arguments.keep)
    rows = []
    for pair in PAIRS:
        for function in FUNCTIONS:
            wanted = arguments.only in f"{function.name} {pair[0]} {pair[1]}" and function.suits(pair[1])
            if wanted and (not arguments.measured or is_kept(function, pair, arguments.seeds, kept)):
                rows.append(compare(function, pair, arguments.seeds, kept))
    if arguments.write:
        write(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
