"""Too few file descriptors: as many as the system lets have are taken, and beyond there is an error that says so."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import textwrap

import kernel
from kernel.testing.leaks import MARK, no_leaks
from kernel.testing.session import RunningSession, kernel_session, temporary_root  # noqa: F401 - the fixture
from kernel_processes.system.descriptor_limit import ENOUGH

SECONDS = 120.0


def run_limited(program: str, soft: int, hard: int) -> str:
    """Run a program that may have `soft` descriptors at first and `hard` if it asks; return what it prints."""
    with temporary_root() as root, no_leaks(root) as mark:
        environment = {**os.environ, "KERNEL_TMPDIR": root, MARK: mark, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            ["bash", "-c", f'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$@"', "-", sys.executable, "-c", program],
            env=environment, capture_output=True, text=True, timeout=SECONDS, cwd=root,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


ACTORS = textwrap.dedent("""
    import os
    import time
    import kernel
    info = kernel.init(num_cpus=2, log_to_driver=False)

    @kernel.remote(num_cpus=0)
    class Answer:
        def give(self):
            return 42

    @kernel.remote
    def wait_for(path, mark=None):
        if mark:
            open(mark, "w").close()
        until(lambda: os.path.exists(path))

    def until(condition):
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def ask(count):
        actors = [Answer.remote() for _ in range(count)]
        given, errors = [], []
        for actor in actors:
            try:
                given.append(kernel.get(actor.give.remote(), timeout=120))
            except kernel.exceptions.WorkerDiedError as error:
                errors.append(error)
        return actors, given, errors
""")


def test_the_soft_limit_does_not_count() -> None:
    program = ACTORS + "kept, given, errors = ask(25); print(len(given), errors)"
    assert run_limited(program, 64, 1024) == "25 []\n"


def test_actors_beyond_the_hard_limit_fail_with_a_reason_and_all_else_goes_on() -> None:
    program = ACTORS + textwrap.dedent("""
        directory = info["session_dir"]
        go, mark, log = (os.path.join(directory, name) for name in ("go", "mark", "logs/agent.log"))
        tasks = [wait_for.remote(go, mark)]
        until(lambda: os.path.exists(mark))
        kept, given, errors = ask(40)
        assert len(given) >= 5 and len(given) + len(errors) == 40, (given, errors)
        print(errors[0])
        given_up = open(log).read().count("did not come up")
        tasks += [wait_for.remote(go) for _ in range(3)]
        until(lambda: open(log).read().count("did not come up") > given_up)
        open(go, "w").close()
        kernel.get(tasks, timeout=120)  # on the worker there is, though no second one could be had
        del kept
        until(lambda: not ask(1)[2])
        """)
    text = run_limited(program, 100, 100)
    assert text.startswith("3 workers in a row did not come up; the last: its output and its connection need file desc")
    assert "(Too many open files: the node agent may have 100); start the session where `ulimit -n` allows more" in text


def test_a_program_and_its_workers_may_have_what_is_useful(kernel_session: RunningSession) -> None:  # noqa: F811
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft >= min(hard, ENOUGH) or hard == resource.RLIM_INFINITY
    assert kernel.get(kernel.remote(resource.getrlimit).remote(resource.RLIMIT_NOFILE)) == (soft, hard)
