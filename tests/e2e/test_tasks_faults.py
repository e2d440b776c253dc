"""Tasks whose worker dies or that raise: retries, what is said about the death, and recycling workers."""

from __future__ import annotations

import collections
import ctypes
import os
import signal
import sys
import time

import pytest

import kernel
from kernel import exceptions

pytestmark = pytest.mark.usefixtures("session")
SECONDS = 120.0


@kernel.remote
def identity(value):
    return value


def segfault():
    ctypes.string_at(0)


def die_by_signal():
    os.kill(os.getpid(), signal.SIGKILL)


def die_quietly():
    os._exit(41)


def abort():
    os.abort()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (die_quietly, "exit code 41"),
        (die_by_signal, r"signal 9 \(SIGKILL\)"),
        (segfault, r"signal 11 \(SIGSEGV\)"),
        (abort, r"signal 6 \(SIGABRT\)"),
    ],
    ids=["exit", "kill", "segfault", "abort"],
)
def test_a_death_is_told_in_full(how, words):
    @kernel.remote(max_retries=0)
    def victim():
        print("famous last words", file=sys.stderr)
        how()

    with pytest.raises(exceptions.WorkerDiedError, match=words) as caught:
        kernel.get(victim.remote(), timeout=SECONDS)
    message = str(caught.value)
    assert "task victim() failed because its worker died" in message
    assert "pid " in message
    assert kernel.nodes()[0]["NodeID"][:8] in message
    assert "famous last words" in message


def test_a_segfault_shows_where_it_happened():
    @kernel.remote(max_retries=0)
    def victim():
        segfault()

    with pytest.raises(exceptions.WorkerDiedError, match=r"(?s)Fatal Python error: Segmentation fault.*segfault"):
        kernel.get(victim.remote(), timeout=SECONDS)


def test_no_task_is_sent_to_a_worker_that_has_called_sys_exit():
    @kernel.remote(max_retries=0)
    def leave():
        sys.exit(3)

    for number in range(10):
        with pytest.raises(exceptions.WorkerDiedError):
            kernel.get(leave.remote(), timeout=SECONDS)
        assert kernel.get(identity.options(max_retries=0).remote(number), timeout=SECONDS) == number


def test_sys_exit_ends_the_worker_and_says_so():
    @kernel.remote(max_retries=0)
    def leave():
        sys.exit(3)

    with pytest.raises(exceptions.WorkerDiedError, match=r"leave\(\) called sys.exit\(3\), which ended worker process"):
        kernel.get(leave.remote(), timeout=SECONDS)
    assert kernel.get(identity.remote(1), timeout=SECONDS) == 1


def count_attempts(path):
    with open(path, "a") as file:
        file.write("x")
    return os.path.getsize(path)


def test_a_task_is_retried_when_its_worker_dies(tmp_path):
    @kernel.remote(max_retries=2)
    def third_time(path):
        if count_attempts(path) < 3:
            os._exit(1)
        return kernel.get_runtime_context().get_attempt_number()

    assert kernel.get(third_time.remote(tmp_path / "log"), timeout=SECONDS) == 2


def test_retries_end(tmp_path):
    @kernel.remote(max_retries=2)
    def never(path):
        count_attempts(path)
        os._exit(1)

    with pytest.raises(exceptions.WorkerDiedError):
        kernel.get(never.remote(tmp_path / "log"), timeout=SECONDS)
    assert os.path.getsize(tmp_path / "log") == 3


def test_without_retries_a_task_runs_once(tmp_path):
    @kernel.remote(max_retries=0)
    def once(path):
        count_attempts(path)
        os._exit(1)

    with pytest.raises(exceptions.WorkerDiedError):
        kernel.get(once.remote(tmp_path / "log"), timeout=SECONDS)
    assert os.path.getsize(tmp_path / "log") == 1


def test_for_ever_means_for_long(tmp_path):
    @kernel.remote(max_retries=-1)
    def stubborn(path):
        if count_attempts(path) < 8:
            os._exit(1)
        return "done"

    assert kernel.get(stubborn.remote(tmp_path / "log"), timeout=SECONDS) == "done"


def test_quick_tasks_beside_one_that_kills_its_worker_all_finish():
    @kernel.remote(max_retries=3)
    def work(i):
        if i == 50:
            os._exit(1)
        return i

    kernel.get([work.remote(0) for _ in range(100)])
    refs = [work.remote(i) for i in range(100)]
    for i, ref in enumerate(refs):
        if i == 50:
            with pytest.raises(exceptions.WorkerDiedError):
                kernel.get(ref, timeout=SECONDS)
        else:
            assert kernel.get(ref, timeout=SECONDS) == i


def test_tasks_without_retries_are_neither_lost_nor_repeated_beside_one_that_dies(tmp_path):
    @kernel.remote(max_retries=0)
    def work(i):
        with open(tmp_path / str(i), "a") as file:
            file.write("x")
        if i % 20 == 10:
            os._exit(1)
        return i

    kernel.get([work.remote(0) for _ in range(100)])
    os.unlink(tmp_path / "0")
    refs = [work.remote(i) for i in range(60)]
    for i, ref in enumerate(refs):
        if i % 20 == 10:
            with pytest.raises(exceptions.WorkerDiedError):
                kernel.get(ref, timeout=SECONDS)
        else:
            assert kernel.get(ref, timeout=SECONDS) == i
        assert (tmp_path / str(i)).read_text() == "x"


def test_killed_from_outside(tmp_path, eventually):
    @kernel.remote(max_retries=1)
    def work(path):
        first = not path.exists()
        path.write_text(str(os.getpid()))
        if first:
            time.sleep(600)
        return os.getpid()

    ref = work.remote(tmp_path / "pid")
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    assert kernel.get(ref, timeout=SECONDS) != pid


def test_arguments_outlive_a_retry(tmp_path):
    @kernel.remote
    def work(path, data, more):
        if count_attempts(path) < 2:
            os._exit(1)
        return len(data) + len(more)

    assert (
        kernel.get(work.remote(tmp_path / "log", "x" * 500_000, kernel.put("y" * 500_000)), timeout=SECONDS)
        == 1_000_000
    )


def test_user_errors_are_not_retried_unless_asked(tmp_path):
    @kernel.remote(max_retries=3)
    def failing(path):
        count_attempts(path)
        raise ValueError("no")

    with pytest.raises(ValueError):
        kernel.get(failing.remote(tmp_path / "log"))
    assert os.path.getsize(tmp_path / "log") == 1


def test_user_errors_are_retried_when_asked(tmp_path):
    @kernel.remote(max_retries=3, retry_exceptions=True)
    def flaky(path):
        if count_attempts(path) < 3:
            raise ValueError("not yet")
        return "done"

    assert kernel.get(flaky.remote(tmp_path / "log")) == "done"
    assert os.path.getsize(tmp_path / "log") == 3


class Passing(Exception):
    pass


class Special(Passing):
    pass


def test_only_the_listed_errors_are_retried(tmp_path):
    @kernel.remote(max_retries=5, retry_exceptions=[Passing])
    def flaky(path, error):
        if count_attempts(path) < 3:
            raise error("not yet")
        return "done"

    assert kernel.get(flaky.remote(tmp_path / "a", Special)) == "done"
    with pytest.raises(KeyError):
        kernel.get(flaky.remote(tmp_path / "b", KeyError))
    assert os.path.getsize(tmp_path / "b") == 1


def test_retries_of_errors_end_with_the_error(tmp_path):
    @kernel.remote(max_retries=2, retry_exceptions=True)
    def failing(path):
        raise ValueError(f"attempt {count_attempts(path)}")

    with pytest.raises(ValueError, match="attempt 3"):
        kernel.get(failing.remote(tmp_path / "log"))


# -- recycling ---------------------------------------------------------------------------------------------------------


def test_a_worker_ends_after_max_calls():
    @kernel.remote(max_calls=3)
    def process():
        return os.getpid()

    counts = collections.Counter(kernel.get([process.remote() for _ in range(15)], timeout=SECONDS))
    assert max(counts.values()) == 3
    assert sum(counts.values()) == 15


def test_max_calls_of_one_with_no_retries_loses_nothing(eventually):
    @kernel.remote(max_calls=1, max_retries=0)
    def process():
        return os.getpid()

    pids = kernel.get([process.remote() for _ in range(12)], timeout=SECONDS)
    assert len(set(pids)) == 12
    eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))


def test_objects_of_a_worn_out_worker_live_as_long_as_they_are_needed(eventually):
    @kernel.remote(max_calls=1)
    def make():
        return os.getpid(), [kernel.put("kept")]

    pid, (ref,) = kernel.get(make.remote())
    assert kernel.get(ref) == "kept"
    del ref
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))


def test_the_limit_belongs_to_the_options_not_to_the_function():
    @kernel.remote
    def process():
        return os.getpid()

    once = process.options(max_calls=1)
    assert len(set(kernel.get([once.remote() for _ in range(4)]))) == 4
    assert len(set(kernel.get([process.remote() for _ in range(50)]))) <= 3


def test_workers_that_can_not_start_are_not_tried_for_ever(fresh_session):
    sockets = os.path.join(fresh_session()["session_dir"], "sockets")
    kernel.get(identity.remote(1))
    os.rename(sockets, sockets + ".gone")  # where each worker makes its own
    fresh_worker = identity.options(runtime_env={"env_vars": {"KT_FRESH": "1"}})
    with pytest.raises(
        exceptions.WorkerDiedError, match=r"(?s)3 workers in a row did not come up; the last: .*FileNotFoundError"
    ):
        kernel.get([fresh_worker.remote(1) for _ in range(5)], timeout=SECONDS)
    assert kernel.get(identity.remote(2), timeout=SECONDS) == 2
    os.rename(sockets + ".gone", sockets)
    assert kernel.get(fresh_worker.remote(3), timeout=SECONDS) == 3


def test_where_the_program_s_directory_is_missing_workers_start_all_the_same(fresh_session, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    fresh_session()
    os.rmdir(tmp_path / "gone")
    assert kernel.get(identity.remote(1), timeout=SECONDS) == 1
