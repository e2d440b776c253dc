"""How much would a module's tests notice? Makes small mistakes in it, one at a time, and runs the tests on each.

python tools/mutate.py MODULE.py --tests FILES [--count 12] [--seed 1] [--timeout SECONDS] [--only NUMBER] [--list]

A mutant (see `mutants.py`) under which a test fails, or runs for too long, is *killed*. One that *survives* is shown as
a diff: either no test looks there, or it makes no difference to anybody (an equivalent mutant), which only a reader can
tell. The files stay as they are: what is imported as MODULE is the mutant, in the process of the tests and in those
that it forks. The exit status is 1 when a mutant survived, 2 when the tests fail without one.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from random import Random
from types import CodeType, ModuleType

from mutants import Mutant, mutants_of

ROOT = Path(__file__).resolve().parent.parent
_PATIENCE = 10.0
"""Tests may take so many times as long as without a mutant, and some seconds, before they count as stuck."""
_LEAST_SECONDS = 60.0
_UNMUTATED_SECONDS = 3600.0
PASSED, FAILED = 0, 1
_ENDED = (FAILED, 2)
"""What pytest returns when tests fail, and when a file of tests can't even be imported."""


class _Loader(SourceFileLoader):
    """Loads a module from a text that is not in its file."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Has one module loaded from a text."""

    def __init__(self, name: str, path: Path, source: str) -> None:
        self._name, self._path, self._source = name, str(path), source

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(name, self._path, loader=_Loader(name, self._path, self._source))


def name_of(path: Path) -> str:
    """Return the name by which a file is imported: its packages are the folders above with an `__init__.py`."""
    names = [path.stem]
    folder = path.parent
    while (folder / "__init__.py").exists():
        names.insert(0, folder.name)
        folder = folder.parent
    return ".".join(names)


class Trial:
    """The tests of one module. Each run is a forked process, which has nothing of the repository's from here."""

    def __init__(self, module: Path, tests: Sequence[str]) -> None:
        self._module, self._name = module, name_of(module)
        self._tests = [str(Path(file).resolve()) for file in tests]

    def run(self, source: str, seconds: float) -> tuple[int | None, str]:
        """Run the tests on the module with this source: what pytest returned, None if it was stuck; its output."""
        with tempfile.TemporaryDirectory(prefix="mutant-") as scratch:
            output = Path(scratch, "output")
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                self._become_tests(source, scratch, output)
            code = _result_of(pid, seconds)
            modules = Path(scratch, "modules")
            if modules.exists():
                _import_once(modules.read_text().split("\n"))
            return code, output.read_text(errors="replace") if output.exists() else ""

    def _become_tests(self, source: str, scratch: str, output: Path) -> None:
        """Run the tests in this process, and end it. It never returns, whatever the mutant does."""
        code = 3
        try:
            os.setsid()
            descriptor = os.open(output, os.O_CREAT | os.O_WRONLY)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = scratch  # what fails for a mutant is no example to keep
            os.chdir(ROOT)
            sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != ROOT / "tools"]
            sys.meta_path.insert(0, _Finder(self._name, self._module, source))
            import pytest

            options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--tb=short"]
            code = int(pytest.main([*options, *self._tests]))
            Path(scratch, "modules").write_text("\n".join(filter(_is_from_elsewhere, sys.modules)))
        finally:
            sys.stdout.flush()
            os._exit(code)


def _is_from_elsewhere(name: str) -> bool:
    """Return whether a module is none of the repository's, so that it never imports the mutant."""
    path = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None) or ""
    return path.endswith((".py", ".so")) and ("site-packages" in path or not Path(path).is_relative_to(ROOT))


def _import_once(names: list[str]) -> None:
    """Import here what the tests have imported: the next processes have it from the start."""
    for name in names:
        if name not in sys.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def _result_of(pid: int, seconds: float) -> int | None:
    """Return how a process ended; one that takes longer is ended with all that it has started."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _verdict(code: int | None) -> str:
    if code is None:
        return "killed (stuck)"
    if code == PASSED:
        return "SURVIVED"
    return "killed" if code in _ENDED else f"killed (ended by {code})"


def _chosen(source: str, count: int, seed: int) -> list[Mutant]:
    """Return so many mutants by chance, always the same ones for a seed."""
    found = mutants_of(source)
    return Random(seed).sample(found, min(count, len(found)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, and say what came of it; return 0 when all mutants were killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", type=Path, metavar="MODULE.py")
    parser.add_argument("--tests", nargs="+", required=True, metavar="FILE", help="what pytest is given")
    parser.add_argument("--count", type=int, default=12, help="how many mutants (default: 12)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default: 1)")
    parser.add_argument("--timeout", type=float, help="seconds for each (default: by how long the tests take)")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="only this one, with what the tests print")
    parser.add_argument("--list", action="store_true", help="show them, and run nothing")
    given = parser.parse_args(arguments)
    module: Path = given.module.resolve()
    source = module.read_text()
    chosen = list(enumerate(_chosen(source, given.count, given.seed), 1))
    if given.list:
        for number, mutant in chosen:
            print(f"{number:3} {mutant.diff(source, str(given.module))}")
        return 0

    trial = Trial(module, given.tests)
    begun = time.monotonic()
    code, output = trial.run(source, _UNMUTATED_SECONDS)
    took = time.monotonic() - begun
    if code != PASSED:
        print(f"{output}\nthe tests fail without any mutant")
        return 2
    seconds = given.timeout or max(_LEAST_SECONDS, took * _PATIENCE)
    print(f"{given.module}, seed {given.seed}; without a mutant its tests take {took:.1f} s", flush=True)
    survived = 0
    chosen = [each for each in chosen if given.only in (None, each[0])]
    for number, mutant in chosen:
        code, output = trial.run(mutant.source, seconds)
        survived += code == PASSED
        print(f"{number:3} {_verdict(code)}: line {mutant.line}, {mutant.what}", flush=True)
        if code == PASSED:
            print(mutant.diff(source, str(given.module)), flush=True)
        if given.only is not None:
            print(output)
    print(f"killed {len(chosen) - survived} of {len(chosen)}")
    return 1 if survived else 0


if __name__ == "__main__":
    raise SystemExit(main())
