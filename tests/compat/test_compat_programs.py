"""Programs of Ray, of all its generations, run unchanged and print what they should.

Each file of `programs/` is one, written as a user of Ray would have; its docstring names the rows of the ledger that it
stands for, and the comment at its end what it prints, in which `...` stands for anything. A program that starts a
session with nothing said joins one that all of these share; the others start their own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from kernel_compat_ray.run import environment_of

from kernel.testing import Cluster
from kernel.testing.ports import free_port

FOLDER = Path(__file__).parent / "programs"
PROGRAMS = sorted(FOLDER.glob("*.py"))
SECONDS = 300
AT_ONCE = 2
SERVE_PORT = "8000"
"""Programs that serve ask there; so that several can run at a time, each is given another port for it."""
SHARED = re.compile(r"^(info = )?ray\.init\((namespace=.*|runtime_env=.*)?\)$", re.MULTILINE)
"""How a program begins that does not say what session it needs."""


def expected(program: Path) -> str:
    """Return what the comment at a program's end says that it prints."""
    lines = program.read_text(encoding="utf-8").split("\n# prints:\n")[1].splitlines()
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines)


def fits(printed: str, shown: str) -> bool:
    """Return whether the output is what is shown, in which `...` stands for anything."""
    pattern = ".*".join(re.escape(part) for part in shown.rstrip().split("..."))
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None


def run(program: Path, shared: str, root: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as `kernel ray-run` does, in a directory of its own."""
    ours = ("KERNEL_", "RAY_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours) or "PRELOAD" in name}
    inherited["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    environment = {**environment_of(inherited, wait_milliseconds=False), "KERNEL_TMPDIR": root}
    text = program.read_text(encoding="utf-8")
    if SHARED.search(text):
        environment["RAY_ADDRESS"] = shared
    if SERVE_PORT in text:
        port = environment["KERNEL_SERVE_HTTP_PORT"] = str(free_port())
        program = directory / program.name
        program.write_text(text.replace(SERVE_PORT, port), encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(program)],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


@pytest.fixture(scope="module")
def results(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[Path, Future[subprocess.CompletedProcess[str]]]]:
    """Every program that was chosen, begun: two run at a time, so that none waits for the test before."""
    wanted = [item.callspec.params["program"] for item in request.session.items if "program" in _parameters(item)]
    directory = tmp_path_factory.mktemp("compat")
    with Cluster(num_cpus=8, num_gpus=0, memory=8 << 30, leak_check=False) as cluster:
        threads, shared = ThreadPoolExecutor(AT_ONCE), cluster.head.directory
        try:
            yield {program: threads.submit(run, program, shared, cluster.root, directory) for program in wanted}
        finally:
            threads.shutdown(cancel_futures=True)  # a run that ends early does not wait for all of them


def _parameters(item: pytest.Item) -> dict[str, object]:
    return getattr(getattr(item, "callspec", None), "params", {})


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_program_of_ray_prints_what_it_should(
    program: Path, results: dict[Path, Future[subprocess.CompletedProcess[str]]]
) -> None:
    done = results[program].result()
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    shown = expected(program)
    assert fits(done.stdout, shown), f"shown:\n{shown}\nprinted:\n{done.stdout}\n{done.stderr[-2000:]}"


def test_the_programs_are_there() -> None:
    assert len(PROGRAMS) >= 70
    assert all("\n# prints:\n" in program.read_text(encoding="utf-8") for program in PROGRAMS)
