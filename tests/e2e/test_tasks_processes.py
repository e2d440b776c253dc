"""What user code may do to its process, what it prints, and Ctrl-C in the driver."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import kernel
from kernel import exceptions
from kernel_processes.system.processes import is_alive

pytestmark = pytest.mark.usefixtures("session")
SECONDS = 120.0


@kernel.remote
def identity(value):
    return value


def works():
    assert kernel.get([identity.remote(i) for i in range(20)], timeout=SECONDS) == list(range(20))


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def run_program(source, *, timeout=SECONDS, **options):
    """Run a program of its own; return what it printed to output and error."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        env=environment(), capture_output=True, text=True, timeout=timeout, **options,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


# -- forks, threads, subprocesses --------------------------------------------------------------------------------------


def leave_by_exit():
    os._exit(0)


def leave_by_system_exit():
    sys.exit(0)


def leave_by_error():
    raise ValueError("in the child")


def leave_by_return():
    return "child"


@pytest.mark.parametrize("leave", [leave_by_exit, leave_by_system_exit, leave_by_error, leave_by_return])
def test_a_task_may_fork(leave):
    @kernel.remote
    def forks():
        pid = os.fork()
        if pid == 0:
            return leave()
        os.waitpid(pid, 0)
        return "parent"

    assert kernel.get([forks.remote() for _ in range(3)], timeout=SECONDS) == ["parent"] * 3
    works()


def test_a_task_may_use_multiprocessing():
    @kernel.remote
    def pool():
        with multiprocessing.get_context("fork").Pool(2) as workers:
            return workers.map(abs, [-1, -2, -3])

    assert kernel.get(pool.remote(), timeout=SECONDS) == [1, 2, 3]
    works()


def test_the_driver_may_fork():
    output, errors = run_program(
        """
        import os, sys
        import kernel

        @kernel.remote
        def identity(x):
            return x

        kernel.init(num_cpus=2)
        ref = kernel.put("before")
        assert kernel.get(identity.remote(1)) == 1
        pid = os.fork()
        if pid == 0:
            sys.exit(0)  # runs exit handlers, which must leave the parent's session alone
        os.waitpid(pid, 0)
        print(kernel.get(identity.remote(2)), kernel.get(ref), kernel.get(identity.options(num_cpus=2).remote(3)))
        """
    )
    assert output.split() == ["2", "before", "3"]
    assert "Traceback" not in errors


def test_a_forked_child_has_no_session_and_is_told_so():
    @kernel.remote
    def forks():
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                kernel.put(1)
                text = "it worked"
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
            os.write(writer, text.encode())
            os._exit(0)
        os.close(writer)
        os.waitpid(pid, 0)
        return os.read(reader, 1000).decode()

    assert "NotInitializedError" in kernel.get(forks.remote(), timeout=SECONDS)
    works()


def test_threads_that_outlive_their_task_do_no_harm(tmp_path, eventually):
    @kernel.remote
    def starts(path):
        def later():
            time.sleep(0.3)
            path.write_text(str(kernel.get(identity.remote("from a thread"))))

        threading.Thread(target=later, daemon=True).start()
        return "returned"

    assert kernel.get(starts.remote(tmp_path / "log")) == "returned"
    works()
    eventually(lambda: (tmp_path / "log").exists() and (tmp_path / "log").read_text() == "from a thread")


def test_subprocesses_run_and_are_heard():
    @kernel.remote
    def shell():
        return subprocess.run(["echo", "hello"], capture_output=True, text=True, check=True).stdout

    assert kernel.get(shell.remote()) == "hello\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_worker_started_ends_with_it(number, eventually):
    @kernel.remote(max_retries=0)
    def starts():
        child = subprocess.Popen(["sleep", "1000"])
        return os.getpid(), child.pid

    worker, child = kernel.get(starts.remote())
    assert os.path.exists(f"/proc/{child}")
    os.kill(worker, number)
    eventually(lambda: not is_alive(worker) and not is_alive(child))
    works()


def test_a_task_may_set_signal_handlers_and_change_directory():
    @kernel.remote
    def changes():
        before = os.getcwd()
        os.chdir("/")
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        os.chdir(before)
        return before

    assert kernel.get(changes.remote()) == os.getcwd()
    works()


def test_a_task_that_closes_its_output_harms_nobody():
    @kernel.remote
    def closes():
        sys.stdout.close()
        os.close(2)
        return 1

    kernel.get(closes.options(max_calls=1).remote())
    works()


def test_input_is_empty():
    @kernel.remote
    def reads():
        return sys.stdin.read()

    assert kernel.get(reads.remote(), timeout=SECONDS) == ""


def test_threads_of_numerical_libraries_are_one_unless_told():
    @kernel.remote
    def threads():
        return os.environ.get("OMP_NUM_THREADS")

    assert kernel.get(threads.remote()) == os.environ.get("OMP_NUM_THREADS", "1")


def test_random_numbers_differ_between_workers():
    @kernel.remote(max_calls=1)
    def draw():
        import random

        import numpy

        return random.random(), numpy.random.random()

    drawn = kernel.get([draw.remote() for _ in range(4)], timeout=SECONDS)
    assert len({a for a, _ in drawn}) == 4
    assert len({b for _, b in drawn}) == 4


# -- output ------------------------------------------------------------------------------------------------------------

PRINTING = """
    import sys
    import kernel
    from kernel_processes.runtime import process_runtime

    process_runtime._OUTPUT_SECONDS = 120.0  # it would leave without what has not come after a moment

    @kernel.remote
    def speak():
        print("to output ☃")
        print("no newline at the end", end="")
        print("to errors", file=sys.stderr)

    kernel.init(num_cpus=1{options})
    kernel.get(speak.remote())
    {more}
    kernel.shutdown()
"""


def test_output_arrives_once_with_its_origin():
    output, errors = run_program(PRINTING.format(options="", more=""))
    assert output.count("to output ☃") == 1
    assert output.count("no newline at the end") == 1
    assert errors.count("to errors") == 1
    line = next(line for line in output.splitlines() if "to output" in line)
    assert line.startswith("(speak pid=")
    assert line.endswith(") to output ☃")


def test_output_can_be_turned_off():
    output, errors = run_program(PRINTING.format(options=", log_to_driver=False", more=""))
    assert "to output" not in output
    assert "to errors" not in errors


def test_output_appears_while_the_program_runs():
    program = textwrap.dedent(PRINTING.format(options="", more="sys.stdin.readline()"))
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline().endswith(") to output ☃\n")
        process.communicate("\n", timeout=SECONDS)
    assert process.returncode == 0


def test_much_output_is_whole():
    output, _ = run_program(
        """
        import kernel
        from kernel_processes.runtime import process_runtime

        process_runtime._OUTPUT_SECONDS = 120.0

        @kernel.remote
        def speak(n):
            for i in range(n):
                print(f"line {i} " + "x" * 100)

        kernel.init(num_cpus=1)
        kernel.get(speak.remote(5000))
        kernel.shutdown()
        """
    )
    assert sum("line " in line for line in output.splitlines()) == 5000


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wait",
    [
        "kernel.get(ref)",
        "kernel.wait([ref])",
        "kernel.get([ref] * 3, timeout=600)",
        "next(stream)",
        "ref.future().result()",
    ],
)
def test_ctrl_c_ends_the_wait_and_leaves_a_working_session(wait):
    output, errors = run_program(
        f"""
        import os, signal, threading, time
        import kernel

        @kernel.remote
        def slow():
            time.sleep(600)

        @kernel.remote
        def slow_stream():
            time.sleep(600)
            yield 1

        @kernel.remote(num_cpus=0)
        def identity(x):
            return x

        kernel.init(num_cpus=2)
        ref, stream = slow.remote(), slow_stream.remote()
        kernel.get(identity.remote(0))
        for _ in range(3):
            try:
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                {wait}
            except KeyboardInterrupt:
                print("interrupted")
            assert kernel.get([identity.remote(i) for i in range(50)]) == list(range(50))
        print("works")
        """
    )
    assert output.split() == ["interrupted"] * 3 + ["works"], errors


def test_ctrl_c_while_tasks_are_submitted_and_read_in_a_loop():
    output, errors = run_program(
        """
        import os, signal, threading
        import kernel

        @kernel.remote
        def identity(x):
            return x

        kernel.init(num_cpus=2)
        kernel.get(identity.remote(0))
        interrupted = 0
        for n in range(20):
            timer = threading.Timer(0.02 + n / 1000, os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                while True:
                    assert kernel.get([identity.remote(i) for i in range(20)]) == list(range(20))
            except KeyboardInterrupt:
                interrupted += 1
        assert kernel.get([identity.remote(i) for i in range(200)], timeout=120) == list(range(200))
        print(interrupted)
        """
    )
    assert output.split() == ["20"], errors


# -- how a session ends ------------------------------------------------------------------------------------------------


def test_without_init_a_session_starts_by_itself_and_ends_with_the_program():
    output, errors = run_program(
        """
        import kernel

        @kernel.remote
        def identity(x):
            return x

        ref = kernel.put(1)
        print(kernel.get(identity.remote(ref)), kernel.is_initialized())
        """
    )
    assert output.split() == ["1", "True"], errors


def test_references_of_an_ended_session_say_so(fresh_session):
    fresh_session()
    ref = identity.remote(1)
    pending = identity.options(resources={"never": 1}).remote(1)
    kernel.get(ref)
    kernel.shutdown()
    kernel.init(num_cpus=1)
    with pytest.raises(exceptions.KernelError, match="session"):
        kernel.get(pending, timeout=SECONDS)
    assert kernel.get(identity.remote(2)) == 2
