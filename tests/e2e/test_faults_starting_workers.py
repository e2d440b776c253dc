"""Workers that are hard to start: they die early, their template does, or there is much to tell them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kernel
from kernel.exceptions import KernelError, OptionError, WorkerDiedError
from kernel.testing.faults import kill, workers_of
from kernel.testing.session import RunningSession, kernel_session, running_session  # noqa: F401 - the fixture

SECONDS = 120.0


def new_worker(agent: int, known: set[int]) -> int:
    """Stop a worker as soon as it is there, most likely before it has joined, and return it."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for pid in set(workers_of(agent)) - known:
            os.kill(pid, signal.SIGSTOP)
            return pid
    raise AssertionError(f"no worker was started within {SECONDS:g} s")


def test_a_worker_that_dies_with_its_template_is_replaced(kernel_session: RunningSession) -> None:  # noqa: F811
    @kernel.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
    class Answer:
        def give(self) -> int:
            return 42

    agent = kernel_session.agent
    for _ in range(6):
        known = set(workers_of(agent))
        actors = [Answer.remote() for _ in range(3)]
        worker = new_worker(agent, known)
        template = kernel_session.template
        kill(template)
        kill(worker)
        assert kernel.get([actor.give.remote() for actor in actors], timeout=SECONDS) == [42] * 3


def test_workers_that_are_killed_as_soon_as_they_are_forked_cost_no_call(kernel_session: RunningSession) -> None:  # noqa: F811
    @kernel.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
    class Answer:
        def give(self) -> int:
            return 42

    agent = kernel_session.agent
    for _ in range(3):
        known = set(workers_of(agent))
        actors = [Answer.remote() for _ in range(3)]  # one may get a worker that is there
        for _ in range(5):
            worker = new_worker(agent, known)
            known.add(worker)
            kill(worker)
        assert kernel.get([actor.give.remote() for actor in actors], timeout=SECONDS) == [42] * 3


@contextmanager
def session_with(site: Path, **modules: str) -> Iterator[RunningSession]:
    """A session whose processes find these modules, with their text, before others."""
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        patch.setenv("KERNEL_PRELOAD", ",".join(modules))
        with running_session(num_cpus=1) as session:
            yield session


def test_a_template_that_can_not_start_fails_tasks_and_actors_and_says_why(tmp_path: Path) -> None:
    @kernel.remote
    class Never:
        def give(self) -> int:
            return 42

    with session_with(tmp_path, numpy="import sys\nsys.exit('no room on the island')\n"):  # templates preload it
        for _ in range(2):
            with pytest.raises(WorkerDiedError, match="no worker can be started: [3-9] templates.* in a row") as caught:
                kernel.get(kernel.remote(lambda: 42).remote(), timeout=SECONDS)
            assert "it ended with exit code 1;" in str(caught.value)
            assert "logs/agent.err:\n" in str(caught.value) and "no room on the island" in str(caught.value)
        with pytest.raises(KernelError, match="(?s)no worker can be started.*no room on the island"):
            kernel.get(Never.remote().give.remote(), timeout=SECONDS)


def test_a_module_that_breaks_while_it_is_preloaded_costs_no_worker(tmp_path: Path) -> None:
    with session_with(tmp_path, numpy="raise ValueError('built for another machine')") as session:
        assert kernel.get(kernel.remote(lambda: 42).remote(), timeout=SECONDS) == 42
        assert "built for another machine" in session.log("agent.err")


@pytest.mark.parametrize("by", ["argument", "environment"])
def test_workers_start_with_the_modules_that_were_asked_for(tmp_path: Path, by: str) -> None:
    (tmp_path / "heavy_module.py").write_text("import os\nIMPORTED_IN = os.getpid()\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        patch.setenv("KERNEL_PRELOAD", "heavy_module" if by == "environment" else "")
        with running_session(num_cpus=1, preload=["heavy_module"] if by == "argument" else None) as session:

            @kernel.remote
            def look() -> tuple[bool, int]:
                import sys

                return "heavy_module" in sys.modules, __import__("heavy_module").IMPORTED_IN

            assert kernel.get(look.remote(), timeout=SECONDS) == (True, session.template)


@pytest.mark.parametrize(
    ("modules", "message"),
    [(["no_such_module_at_all"], "'no_such_module_at_all', which can't be found"), ("numpy", r"such as \['numpy'\]")],
)
def test_what_can_not_be_preloaded_is_refused(modules: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        kernel.init(preload=modules)  # type: ignore[arg-type]


def test_an_environment_may_be_large(kernel_session: RunningSession) -> None:  # noqa: F811
    environment = {"env_vars": {"LARGE": "x" * 1_000_000}}
    task = kernel.remote(lambda: len(os.environ["LARGE"])).options(runtime_env=environment)
    assert kernel.get(task.remote(), timeout=SECONDS) == 1_000_000
