"""Install, test and uninstall every distribution of this repository alone: `python tools/alone.py [NAME ...]`.

For each one: a fresh virtual environment, into which pip installs its wheel with what it declares and no more. Each of
its modules is imported, each of its entry points loaded, and where the kernel is there a small program runs. Then what
its tests import is installed besides, and its tests run. At last it is uninstalled: no file of it may be left, and
neither of any other distribution of ours once these are uninstalled too.

The tests of the libraries take minutes over real processes, so they run with `--all` only. pip takes what others
published from its cache, else from the configured index. The exit code is 1 when something went wrong.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from build_wheels import build
from import_statements import import_statements
from workspace_projects import ROOT, distributions, normalized, version

TEST_TOOLS = ("hypothesis", "pytest", "pytest-timeout", "pytest-xdist", "structlog")
"""What runs tests, and what `conftest.py` of this repository imports."""
LIMIT_SECONDS = 1800.0
"""What one command may take on a machine that is busy."""

LONG = {"kernel-compat-ray", "kernel-parallel", "kernel-rllib", "kernel-serve", "kernel-tune"}
"""Distributions whose tests take minutes."""

BROUGHT_BY = {"kernel-engine": ("kernel",), "kernel-local-mode": ("kernel",)}
"""Distributions that others need and bring, to those: they import these without declaring it, which would be a ring."""

TESTS_OF_THE_KERNEL = tuple(
    f"tests/unit/{part}" for part in ("api", "cli", "defaults", "environments", "plugins", "runtime")
)
"""The tests of the kernel itself; others in `tests` are of several distributions together."""

TESTS_NEED = {
    "kernel": ("kernel-metadata-sqlite",),
    "kernel-compat-ray": ("kernel-parallel", "kernel-rllib", "kernel-serve", "kernel-tune"),
    "kernel-conformance": ("kernel-network-tcp", "kernel-scheduler-fifo", "kernel-store-plasma", "ruff"),
    "kernel-control-grpc": ("cryptography", "kernel-metadata-sqlite"),
    "kernel-environment-conda": ("pip",),
    "kernel-environment-interpreter": ("uv",),
    "kernel-environment-pip": ("pip", "uv"),
    "kernel-network-tcp": ("cryptography",),
    "kernel-processes": ("cryptography",),
    "kernel-provider-aws": ("flask", "flask-cors", "moto"),
    "kernel-provider-gcp": ("google-api-python-client",),
    "kernel-provider-local": ("kernel-autoscaler",),
    "kernel-rllib": ("h5py", "kernel-serve", "kernel-tune", "pillow", "pyarrow"),
    "kernel-runs": ("pandas",),
    "kernel-serve": (
        "kernel-metadata-sqlite",
        "kernel-serve-http2",
        "opentelemetry-sdk",
        "python-multipart",
        "scikit-learn",
    ),
    "kernel-serve-http2": ("cryptography",),
    "kernel-simulation": ("kernel-scheduler-fair", "kernel-scheduler-fifo"),
    "kernel-spill-fsspec": ("flask", "flask-cors", "moto", "s3fs"),
    "kernel-tune": ("matplotlib", "scikit-learn"),
}
"""Distribution to what its tests need and do not import themselves."""

STARTS_A_SESSION = re.compile(r"kernel\.init\(|running_session|kernel_session|Cluster\(")
FOR_A_SESSION = ("kernel-processes", "kernel-scheduler-fifo", "kernel-store-plasma")
"""What a session over all cores needs, and no test names."""

IMPORT_ALL = """
import contextlib, importlib, importlib.metadata, importlib.util, io, json, pathlib, sys
folder, name = pathlib.Path(importlib.import_module(sys.argv[1]).__file__).parent, sys.argv[2]
imported, missing, broken = 0, {}, {}
for file in sorted(folder.rglob("*.py")):
    parts = file.relative_to(folder).with_suffix("").parts
    packages = [folder.joinpath(*parts[:depth], "__init__.py") for depth in range(1, len(parts))]
    if parts[-1] == "__main__" or not all(map(pathlib.Path.is_file, packages)):
        continue
    module = ".".join((sys.argv[1], *parts)).removesuffix(".__init__")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            importlib.import_module(module)
        imported += 1
    except ModuleNotFoundError as error:
        top = (error.name or "?").partition(".")[0]
        said = not top.startswith("kernel") or "is not installed: " in str(error)  # by a library that can do without
        (missing if said else broken)[module] = str(error)
    except ImportError as error:
        missing[module] = str(error)
    except Exception as error:
        broken[module] = f"{type(error).__name__}: {error}"
for point in importlib.metadata.distribution(name).entry_points:
    try:
        point.load()
    except Exception as error:
        asks = point.group.partition(".")[0]  # the package that looks for such an entry point
        unasked = asks.startswith("kernel_") and importlib.util.find_spec(asks) is None
        (missing if unasked else broken)[f"{point.group}:{point.name}"] = f"{type(error).__name__}: {error}"
print(json.dumps([imported, missing, broken]))
"""

PROGRAM = """
import kernel

@kernel.remote
def double(number):
    return 2 * number

@kernel.remote
class Counter:
    def __init__(self):
        self.count = 0
    def up(self):
        self.count += 1
        return self.count

if __name__ == "__main__":
    kernel.init(num_cpus=1, logging_level="error")
    assert kernel.get([double.remote(kernel.put(number)) for number in range(3)]) == [0, 2, 4]
    counter = Counter.options(num_cpus=0).remote()
    assert kernel.get([counter.up.remote(), counter.up.remote()]) == [1, 2]
    kernel.shutdown()
"""

SETTINGS = """
[pytest]
addopts = --import-mode=importlib -p no:cacheprovider
markers =
    packaging: of several distributions
    slow: takes more than ten seconds
timeout = 600
timeout_method = thread
"""


@dataclass
class Outcome:
    """What became of one distribution. `problems` is empty when all went well."""

    name: str
    brought: list[str] = field(default_factory=list)
    imported: int = 0
    optional: int = 0
    tests: str = "not run"
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Environment:
    """A fresh virtual environment. pip runs from outside, so that none has to be installed first."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.folder = folder
        self._wheels = wheels
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        self.bin = folder / "venv" / "bin"
        (self.site,) = (folder / "venv").glob("lib/python*/site-packages")

    def run(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command away from the checkout, with nothing of what surrounds this process."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KERNEL_"))}
        cache = os.environ.get("PIP_CACHE_DIR") or os.path.expanduser("~/.cache/pip")
        own = {"PIP_CACHE_DIR": cache, "XDG_CACHE_HOME": str(self.folder / "cache"), "NO_COLOR": "1"}
        return subprocess.run(
            [str(part) for part in command],
            cwd=self.folder,
            env={**clean, **own, **environment},
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )

    def pip(self, *arguments: str | Path) -> None:
        """Run pip on this environment. Raises RuntimeError with what it wrote when it fails."""
        done = self.run(sys.executable, "-m", "pip", "--python", self.bin / "python", *arguments)
        if done.returncode:
            raise RuntimeError(f"pip {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")

    def install(self, *names: str, others: Iterable[str] = ()) -> None:
        """Install distributions of ours and requirements of others, and what all of these need."""
        exactly = [f"{name}=={version()}" for name in names]
        self.pip("install", "--quiet", "--no-compile", "--find-links", self._wheels, *exactly, *others)

    def ours(self) -> list[str]:
        """Return the distributions of this repository that are installed."""
        return sorted(normalized(info.name.split("-")[0]) for info in self.site.glob("kernel*.dist-info"))

    def remains(self, beginning: str = "kernel") -> list[str]:
        """Return what there is of packages and programs whose names begin like that."""
        return sorted(path.name for folder in (self.site, self.bin) for path in folder.glob(f"{beginning}*"))


def main() -> int:
    """Try the distributions that are named, or all; print a line for each, and return the exit code."""
    folders = distributions()
    parser = argparse.ArgumentParser(description="Install, test and uninstall distributions, each alone.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="such as kernel-tune (default: all)")
    parser.add_argument("--all", action="store_true", help="run the tests of libraries, too, which take minutes")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (default: 1)")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - folders.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(folders)}")
    names = arguments.names or list(folders)
    failed = False
    print(f"{'DISTRIBUTION':<28}{'SECONDS':>8}  {'MODULES':>8}  TESTS", flush=True)
    with tempfile.TemporaryDirectory(dir="/tmp") as place, ThreadPoolExecutor(arguments.jobs) as pool:
        wheels = Path(place) / "wheels"
        build(wheels)
        tried = [
            pool.submit(attempt, name, Path(place) / name, wheels, arguments.all or name not in LONG) for name in names
        ]
        for outcome in (one.result() for one in as_completed(tried)):
            failed = failed or bool(outcome.problems)
            print(_line(outcome), *outcome.problems, sep="\n    ", flush=True)
    return int(failed)


def attempt(name: str, place: Path, wheels: Path, with_tests: bool) -> Outcome:
    """Install, try and uninstall one distribution in `place`, a folder that is made."""
    outcome, began = Outcome(name), time.monotonic()
    place.mkdir()
    try:
        _try_out(outcome, distributions()[name], Environment(place, wheels), with_tests)
    except Exception as error:  # pip, or what took too long; the others go on
        outcome.problems.append(f"{type(error).__name__}: {error}")
    outcome.seconds = time.monotonic() - began
    return outcome


def _try_out(outcome: Outcome, folder: Path, environment: Environment, with_tests: bool) -> None:
    environment.install(outcome.name, *BROUGHT_BY.get(outcome.name, ()))
    outcome.brought = [name for name in environment.ours() if name != outcome.name]
    _import_all(outcome, environment)
    if "kernel" in (outcome.name, *outcome.brought):
        (environment.folder / "program.py").write_text(PROGRAM)
        done = environment.run(environment.bin / "python", "program.py")
        if done.returncode:
            outcome.problems.append(f"a small program failed: {done.stderr}")
    if with_tests:
        _run_tests(outcome, folder, environment)
    package = outcome.name.replace("-", "_")
    environment.pip("uninstall", "--quiet", "--yes", outcome.name)
    left = [name for name in environment.remains(package) if name == package or name.startswith(f"{package}-")]
    if environment.ours():
        environment.pip("uninstall", "--quiet", "--yes", *environment.ours())
    left += environment.remains()
    if left:
        outcome.problems.append(f"left after it was uninstalled: {', '.join(dict.fromkeys(left))}")


def _import_all(outcome: Outcome, environment: Environment) -> None:
    """Import every module and load every entry point; those that need what is optional are counted."""
    (environment.folder / "import_all.py").write_text(IMPORT_ALL)
    package = outcome.name.replace("-", "_")
    done = environment.run(environment.bin / "python", "import_all.py", package, outcome.name)
    if done.returncode:
        outcome.problems.append(f"{package} can't be imported: {done.stderr}")
        return
    outcome.imported, optional, broken = json.loads(done.stdout.splitlines()[-1])
    outcome.optional = len(optional)
    outcome.problems += [f"{module} can't be imported: {error}" for module, error in broken.items()]


def _run_tests(outcome: Outcome, folder: Path, environment: Environment) -> None:
    paths = [ROOT / path for path in TESTS_OF_THE_KERNEL] if folder == ROOT else [folder / "tests"]
    siblings, others = needed_by(paths)
    for other in (*TEST_TOOLS, *TESTS_NEED.get(outcome.name, ())):
        if other in distributions():
            siblings.add(other)
        else:
            others.add(_requirement(other))
    environment.install(*sorted(siblings - {outcome.name, *outcome.brought}), others=sorted(others))
    # Workers import test modules by the name that pytest gives them, such as `plugins.runs.tests.test_runs_results`,
    # and must find nothing else of the checkout.
    for path in paths:
        link = environment.folder / "modules" / path.relative_to(ROOT)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
    settings = environment.folder / "pytest.ini"
    settings.write_text(SETTINGS)
    done = environment.run(
        *(environment.bin / "python", "-P", "-m", "pytest", "-q", "-c", settings),
        *("--rootdir", ROOT, "--confcutdir", ROOT, *paths),
        PYTHONPATH=f"{ROOT / 'tools'}{os.pathsep}{environment.folder / 'modules'}",
        PATH=f"{environment.bin}{os.pathsep}{os.environ['PATH']}",
    )
    for compiled in environment.site.rglob("*-pytest-*.pyc"):  # pytest's, of modules that are named like tests
        compiled.unlink()
    lines = done.stdout.strip().splitlines() or ["nothing was printed"]
    outcome.tests = re.sub(r" in [\d.]+s.*|=+ ?", "", lines[-1]).strip()
    if done.returncode:
        told = [line for line in lines if line.startswith(("FAILED", "ERROR", "E  "))][-12:] or lines[-12:]
        outcome.problems += [*told, *done.stderr.splitlines()[-5:]]


def needed_by(paths: Sequence[Path]) -> tuple[set[str], set[str]]:
    """Return what tests import: distributions of this repository, and requirements of others."""
    ours, owners = distributions(), importlib.metadata.packages_distributions()
    siblings, others = set[str](), set[str]()
    for file in (file for path in paths for file in sorted(path.rglob("*.py"))):
        text = file.read_text(encoding="utf-8")
        for module in _modules(text):
            top, _, rest = module.partition(".")
            mounted = {"control_plane": "control_grpc"}.get(rest.partition(".")[0], rest.partition(".")[0])
            name = f"kernel-{normalized(mounted)}" if top == "kernel" else normalized(top)
            if name in ours:
                siblings.add(name)
            elif top == "kernel":
                siblings.add("kernel")
            elif top not in sys.stdlib_module_names and not (ROOT / "tools" / f"{top}.py").exists():
                others |= {_requirement(normalized(owner)) for owner in owners.get(top, [])[:1]}
        if STARTS_A_SESSION.search(text):
            siblings |= {"kernel", *FOR_A_SESSION}
    return siblings, others


def _modules(text: str) -> Iterator[str]:
    """Yield `a.b` of `import a.b`, and of `from a import b`."""
    for node, _ in import_statements(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _requirement(name: str) -> str:
    """Return a distribution of others as the project file of kernel asks for it, else its name."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(rf'^    "({re.escape(name)}(?:\[[\w,]+\])?[<>=][^"]*)"', project, re.MULTILINE)
    return found[1] if found else name


def _line(outcome: Outcome) -> str:
    modules = f"{outcome.imported}+{outcome.optional}" if outcome.optional else str(outcome.imported)
    result = "failed" if outcome.problems else "ok"
    return f"{outcome.name:<28}{outcome.seconds:>8.1f}  {modules:>8}  {result}: {outcome.tests}"


if __name__ == "__main__":
    raise SystemExit(main())
