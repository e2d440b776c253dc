"""A tour of kernel: index the source files of Python's own library, with tasks, an actor and shared arrays.

    python examples/tour.py

1. Tasks read and parse the files, and an actor merges what they found into one index.
2. Other tasks compare every file with every other, on arrays that lie in shared memory and are read without a copy.
3. One task fails, on purpose, to show how that looks.

Everything is done once more in this process alone, so the speed-up at the end is a measured one.
"""

from __future__ import annotations

import ast
import gc
import itertools
import math
import os
import re
import sys
import sysconfig
import time
import traceback
import warnings
import zlib
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one process, one CPU: both ways are compared on equal terms
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import kernel

SOURCE_BYTES = 20_000_000
"""How much source is read: enough to be real work, little enough for a slow machine of two cores."""
CHUNKS = 24
COLUMNS = 4096
MOST_SHOWN = 5
BRANCHES = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.IfExp, ast.BoolOp, ast.comprehension, ast.ExceptHandler)
WELL_USED = 0.85
"""From which share of the CPUs on the speed-up needs no explanation."""
IDLE_LOAD = 0.25
"""Up to which share of the CPUs is a machine quiet."""
WORD = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{3,}")  # splits snake_case and CamelCase

Postings = dict[str, list[tuple[str, int]]]  # word -> the files it is in, and how often


# -- the work: ordinary functions and an ordinary class --------------------------------------------------------------


def read_files(paths: list[str]) -> tuple[Postings, Counter, Counter, np.ndarray]:
    """Return the words of some files, the modules they import, and the branches of their most branching functions.

    And an array with a row per file: its words hashed.
    """
    postings: Postings = {}
    imports: Counter = Counter()
    branches: Counter = Counter()
    rows = np.zeros((len(paths), COLUMNS), np.float32)
    gc.disable()  # nothing here is garbage before the end
    for row, path in zip(rows, paths, strict=True):
        text = Path(path).read_text("utf-8", errors="replace")
        tree = parsed(text)
        imports.update(imported_modules(tree))
        branches.update({f"{name} in {path}": count for name, count in branches_of_functions(tree).items()})
        for word, often in Counter(map(str.lower, WORD.findall(text))).items():
            postings.setdefault(word, []).append((path, often))
            row[zlib.crc32(word.encode()) % COLUMNS] += math.log1p(often)
    gc.enable()
    return postings, imports, Counter(dict(branches.most_common(MOST_SHOWN))), rows


def parsed(text: str) -> ast.Module:
    """Return a source file as a tree; an empty one if it is no valid Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def imported_modules(tree: ast.Module) -> set[str]:
    """Return the modules that a source file imports at its top level."""
    names = {alias.name for line in tree.body if isinstance(line, ast.Import) for alias in line.names}
    return names | {line.module for line in tree.body if isinstance(line, ast.ImportFrom) and line.module}


def branches_of_functions(tree: ast.Module) -> Counter:
    """Return how many branches each function of a source file has, those of functions inside of it included."""
    found: Counter = Counter()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[node.name] = max(found[node.name], sum(isinstance(inner, BRANCHES) for inner in ast.walk(node)))
    return found


def nearest(mine: int, weights: np.ndarray, *arrays: np.ndarray) -> list[int]:
    """Return, for each row of one of the arrays, the number of the most similar other row in all of them."""

    def normal(rows: np.ndarray) -> np.ndarray:
        weighted = rows * weights
        return weighted / np.maximum(np.linalg.norm(weighted, axis=1, keepdims=True), 1e-9)

    rows = normal(arrays[mine])
    likeness = np.hstack([rows @ normal(others).T for others in arrays])
    first = sum(len(array) for array in arrays[:mine])
    likeness[np.arange(len(rows)), first + np.arange(len(rows))] = -1  # not itself
    return likeness.argmax(axis=1).tolist()


def average_line(path: str) -> float:
    """Return the average length of a file's lines. Its author did not think of empty files."""
    lines = Path(path).read_text().splitlines()
    return sum(map(len, lines)) / len(lines)


class Index:
    """Merges what was found in some files after the other, and answers questions about all of them."""

    def __init__(self) -> None:
        self.postings: Postings = {}
        self.imports: Counter = Counter()
        self.branches: Counter = Counter()
        self.files_with = np.zeros(COLUMNS)

    def add(self, postings: Postings, imports: Counter, branches: Counter, rows: np.ndarray) -> None:
        """Merge what `read_files` found."""
        for word, files in postings.items():
            self.postings.setdefault(word, []).extend(files)
        self.imports.update(imports)
        self.branches.update(branches)
        self.files_with += (rows > 0).sum(axis=0)

    def weights(self) -> np.ndarray:
        """Return how much each column tells: little when nearly every file has one of its words."""
        return np.log1p(self.files_with.max() / (1 + self.files_with)).astype(np.float32)

    def totals(self) -> tuple[int, int, list[tuple[str, int]], list[tuple[str, int]]]:
        """Return the count of words, of different words, the modules imported most, and the most branching functions.

        What is as often as another comes in the order of names, whatever was added first.
        """
        words = sum(often for files in self.postings.values() for _, often in files)
        imports, branches = (sorted(some.items(), key=lambda one: (-one[1], one[0])) for some in self._counted())
        return words, len(self.postings), imports[:MOST_SHOWN], branches[:MOST_SHOWN]

    def _counted(self) -> tuple[Counter, Counter]:
        return self.imports, self.branches

    def search(self, query: str) -> list[str]:
        """Return the three files that are most about the words of the query."""
        scores: Counter = Counter()
        for word in query.split():
            files = self.postings.get(word, [])
            for path, often in files:
                scores[path] += math.log1p(often) / math.log(2 + len(files))
        return [path for path, _ in scores.most_common(3)]


# -- on all CPUs, and in this process: what differs is how the functions are called ----------------------------------

read_files_task = kernel.remote(num_returns=4)(read_files)
nearest_task = kernel.remote(nearest)
average_line_task = kernel.remote(average_line)
IndexActor = kernel.remote(num_cpus=0)(Index)


def index_in_parallel(chunks: list[list[str]]) -> tuple[kernel.ActorHandle, list[kernel.ObjectRef]]:
    """Read in tasks, merge in an actor. What is found goes from worker to worker, not through this process."""
    index = IndexActor.remote()
    found = [read_files_task.remote(chunk) for chunk in chunks]
    show_progress("reading", [index.add.remote(*refs) for refs in found])
    return index, [rows for *_, rows in found]


def compare_in_parallel(index: kernel.ActorHandle, arrays: list[kernel.ObjectRef]) -> list[int]:
    """Compare in tasks. Each array was written once, by the task that made it; all tasks read it where it lies."""
    weights = index.weights.remote()
    compared = [nearest_task.remote(number, weights, *arrays) for number in range(len(arrays))]
    show_progress("comparing", compared)
    return [row for rows in kernel.get(compared) for row in rows]


def index_alone(chunks: list[list[str]]) -> tuple[Index, list[np.ndarray]]:
    """Do the work of `index_in_parallel` in this process."""
    index, found = Index(), []
    for chunk in chunks:
        found.append(read_files(chunk))
        index.add(*found[-1])
    return index, [rows for *_, rows in found]


def compare_alone(index: Index, arrays: list[np.ndarray]) -> list[int]:
    """Do the work of `compare_in_parallel` in this process."""
    weights = index.weights()
    return [row for number in range(len(arrays)) for row in nearest(number, weights, *arrays)]


# -- helpers ---------------------------------------------------------------------------------------------------------


def library_files() -> tuple[Path, list[list[str]]]:
    """Return where Python's library is, and source files of it, its tests last, in chunks of about the same size."""
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in root.rglob("*.py") if not {"site-packages", "dist-packages"} & set(path.parts)]
    files.sort(key=lambda path: ("test" in path.relative_to(root).parts, path))
    sums = itertools.accumulate(path.stat().st_size for path in files)
    chosen = [path for path, size in zip(files, sums, strict=True) if size <= SOURCE_BYTES]
    ordered = sorted(chosen, key=lambda path: (path.stat().st_size, path), reverse=True)
    return root, [[str(path) for path in ordered[number::CHUNKS]] for number in range(CHUNKS)]


def what_limits(speed_up: float, cpus: float, load: float) -> str:
    """Return why the work was not as much faster as there are CPUs; nothing if it nearly was.

    `load` is how many processes wanted a CPU before all this began.
    """
    if speed_up >= WELL_USED * cpus:
        return ""
    if load > IDLE_LOAD * cpus:
        return (
            f"other programs want the {cpus:g} CPUs, too (load average {load:.1f} before this began): "
            "on a quiet machine the speed-up is higher"
        )
    if cpus > CHUNKS / 4:
        return f"there are {CHUNKS} chunks, too few for {cpus:g} CPUs, and one actor merges them all"
    return "one actor merges what all tasks find, and what they find is sent from process to process"


def show_progress(label: str, refs: list[kernel.ObjectRef]) -> None:
    """Wait for all of `refs`, with a bar if this is a terminal."""
    terminal = sys.stderr.isatty()
    waiting = refs
    while waiting:
        done = len(refs) - len(waiting)
        if terminal:
            print(f"\r{label:10} [{'#' * done}{'.' * len(waiting)}]", end="", file=sys.stderr, flush=True)
        _, waiting = kernel.wait(waiting)
    if terminal:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def main() -> None:
    """Walk through everything and print what came out."""
    clock = time.perf_counter
    load = os.getloadavg()[0]
    root, chunks = library_files()
    paths = [path for chunk in chunks for path in chunk]
    short = {path: os.path.relpath(path, root) for path in paths}

    started = clock()
    kernel.init(preload=["numpy"])
    cpus = kernel.cluster_resources()["CPU"]
    t0 = clock()
    print(f"a session with {cpus:g} CPUs started in {t0 - started:.2f} s\n")
    index, arrays = index_in_parallel(chunks)
    t1 = clock()
    twins = compare_in_parallel(index, arrays)
    t2 = clock()

    totals = kernel.get(index.totals.remote())
    print(f"{len(paths):,} files of {root}, {sum(map(os.path.getsize, paths)) / 1e6:.0f} MB")
    print(f"  {totals[0]:,} words, {totals[1]:,} different ones")
    print(f"  imported most: {', '.join(f'{name} ({files})' for name, files in totals[2])}")
    for name, often in totals[3][:2]:
        function, _, path = name.partition(" in ")
        print(f"  most branches: {function}() in {short[path]} ({often})")
    for query in ("regular expression pattern", "http proxy", "temporary directory"):
        found = kernel.get(index.search.remote(query))
        print(f"  about {query!r}: {', '.join(short[path] for path in found)}")
    for path, twin in zip(paths, twins, strict=True):
        if short[path] in ("bz2.py", "smtplib.py", "json/decoder.py"):
            print(f"  most like {short[path]}: {short[paths[twin]]}")
    first, size = kernel.get(arrays[0]), sum(array.nbytes for array in kernel.get(arrays))
    print(f"  {CHUNKS} arrays, {size / 1e6:.0f} MB, written once and read in place {CHUNKS} times", end=" ")
    print(f"(writeable: {first.flags.writeable})\n")

    empty = next((path for path in paths if os.path.getsize(path) == 0), os.devnull)
    try:
        kernel.get(average_line_task.remote(empty))
    except ZeroDivisionError as error:  # what a task raises, its caller can catch
        lines = "".join(traceback.format_exception(error)).splitlines()
        print("one task failed, as planned, and says where:", *lines[-4:], "", sep="\n  ")

    print("the same once more, in this process alone ...\n", flush=True)
    t3 = clock()
    alone, rows = index_alone(chunks)
    t4 = clock()
    same_twins = compare_alone(alone, rows)
    t5 = clock()
    assert alone.totals() == totals and same_twins == twins, "the two ways disagree"

    print(f"{'':10} {'one process':>12} {f'{cpus:g} CPUs':>10} {'speed-up':>10}")
    for label, slow, fast in (("read", t4 - t3, t1 - t0), ("compare", t5 - t4, t2 - t1), ("both", t5 - t3, t2 - t0)):
        print(f"{label:10} {slow:10.2f} s {fast:8.2f} s {slow / fast:9.1f}x")
    limit = what_limits((t5 - t3) / (t2 - t0), cpus, load)
    if limit:
        print(f"\nwhat limits it: {limit}")
    kernel.shutdown()
    print(f"\ndone in {clock() - started:.1f} s; both ways gave the same results")


if __name__ == "__main__":
    main()
