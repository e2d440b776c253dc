"""Cancelling tasks: waiting ones, running ones, children, by force."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

import kernel
from kernel import exceptions
from kernel.testing.faults import wait_until

pytestmark = pytest.mark.usefixtures("session")
SECONDS = 120.0


@kernel.remote
def sleep(path=None, seconds=600.0):
    if path is not None:
        path.write_text("begun")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.02)
    return "slept"


@kernel.remote
def identity(value):
    return value


def assert_cancelled(ref, name="sleep"):
    with pytest.raises(exceptions.TaskCancelledError, match=rf"task {name}\(\) \({ref.hex()[:32]}\) was cancelled"):
        kernel.get(ref, timeout=SECONDS)


def test_a_running_task_is_interrupted(tmp_path, eventually):
    ref = sleep.remote(tmp_path / "begun")
    eventually((tmp_path / "begun").exists)
    kernel.cancel(ref)
    assert_cancelled(ref)


def test_the_task_sees_a_keyboard_interrupt(tmp_path, eventually):
    @kernel.remote
    def careful(path):
        try:
            path.write_text("begun")
            time.sleep(600)
        except KeyboardInterrupt:
            path.write_text("interrupted")
            raise

    ref = careful.remote(tmp_path / "log")
    eventually((tmp_path / "log").exists)
    kernel.cancel(ref)
    assert_cancelled(ref, "careful")
    eventually(lambda: (tmp_path / "log").read_text() == "interrupted")


def test_a_queued_task_never_runs(tmp_path):
    blockers = [sleep.remote() for _ in range(2)]
    queued = sleep.options(num_cpus=2).remote(tmp_path / "ran")
    kernel.cancel(queued)
    assert_cancelled(queued)
    for blocker in blockers:
        kernel.cancel(blocker)
        assert_cancelled(blocker)
    assert kernel.get(identity.remote(1)) == 1
    assert not (tmp_path / "ran").exists()


def test_a_task_that_waits_for_arguments_never_runs(tmp_path, eventually):
    slow = sleep.remote(tmp_path / "begun")
    waiting = identity.remote(slow)
    kernel.cancel(waiting)
    assert_cancelled(waiting, "identity")
    eventually((tmp_path / "begun").exists)
    kernel.cancel(slow)
    assert_cancelled(slow)


def test_what_depends_on_a_cancelled_task_is_cancelled_too():
    slow = sleep.remote()
    dependent = identity.remote(slow)
    kernel.cancel(slow)
    with pytest.raises(exceptions.TaskCancelledError, match=r"task sleep\(\)"):
        kernel.get(dependent, timeout=SECONDS)


def test_a_finished_task_is_left_alone():
    ref = identity.remote(3)
    assert kernel.get(ref) == 3
    kernel.cancel(ref)
    kernel.cancel(ref, force=True)
    assert kernel.get(ref) == 3


def test_a_put_object_is_left_alone():
    ref = kernel.put(1)
    kernel.cancel(ref)
    assert kernel.get(ref) == 1


class SlowToLoad:
    """Takes its time where it arrives, and says when that begins."""

    def __init__(self, begun):
        self.begun = begun

    def __reduce__(self):
        return load_slowly, (self.begun,)


def load_slowly(begun):
    begun.touch()
    time.sleep(0.3)
    return SlowToLoad(begun)


def test_a_task_whose_function_is_being_loaded_never_runs(tmp_path, eventually):
    slow = SlowToLoad(tmp_path / "begun")
    ran = tmp_path / "ran"

    @kernel.remote
    def work():
        ran.write_text(str(slow))

    ref = work.remote()
    eventually(slow.begun.exists)
    kernel.cancel(ref)
    assert_cancelled(ref, "work")
    assert not ran.exists()


def test_cancelling_twice_is_the_same_as_once():
    ref = sleep.remote()
    kernel.cancel(ref)
    kernel.cancel(ref)
    assert_cancelled(ref)


def test_force_ends_a_task_that_will_not_listen(tmp_path, eventually):
    @kernel.remote(max_retries=5)
    def stubborn(path):
        path.write_text(str(os.getpid()))
        while True:
            try:
                time.sleep(600)
            except KeyboardInterrupt:
                path.with_suffix(".again").write_text("still here")

    ref = stubborn.remote(tmp_path / "pid")
    eventually((tmp_path / "pid").exists)
    kernel.cancel(ref)
    eventually((tmp_path / "pid.again").exists)
    kernel.cancel(ref, force=True)
    assert_cancelled(ref, "stubborn")
    eventually(lambda: not os.path.exists(f"/proc/{int((tmp_path / 'pid').read_text())}"))


def test_force_on_a_task_that_waits_in_line_spares_the_one_that_runs(fresh_session, tmp_path, eventually):
    fresh_session(num_cpus=1)

    @kernel.remote(max_retries=0)
    def work(path, gate=None):
        with open(path, "a") as file:
            file.write("x")
        if gate is not None:
            wait_until(gate.exists, SECONDS, "the opening of the gate")
        return "done"

    kernel.get([work.remote(tmp_path / "warm") for _ in range(100)])
    running = work.remote(tmp_path / "log", tmp_path / "gate")
    behind = work.remote(tmp_path / "behind")
    eventually((tmp_path / "log").exists)
    kernel.cancel(behind, force=True)
    with pytest.raises(exceptions.TaskCancelledError):
        kernel.get(behind, timeout=SECONDS)
    (tmp_path / "gate").touch()
    assert kernel.get(running, timeout=SECONDS) == "done"
    assert (tmp_path / "log").read_text() == "x"
    assert not (tmp_path / "behind").exists()


def test_children_are_cancelled_with_their_parent(tmp_path, eventually):
    @kernel.remote
    def parent():
        return kernel.get(sleep.remote(tmp_path / "child"))

    ref = parent.remote()
    eventually((tmp_path / "child").exists)
    kernel.cancel(ref)
    assert_cancelled(ref, "parent")
    runtime = kernel.api.session.ensure_session()
    eventually(lambda: runtime.query("status")["available"].get("CPU") == 2)


def test_children_may_be_spared(tmp_path, eventually):
    @kernel.remote
    def child(path):
        path.write_text("begun")
        wait_until(parent_ended.exists, SECONDS, "the parent's end")
        path.write_text("finished")

    @kernel.remote
    def parent():
        return kernel.get(child.remote(tmp_path / "child"))

    parent_ended = tmp_path / "parent ended"

    ref = parent.remote()
    eventually((tmp_path / "child").exists)
    kernel.cancel(ref, recursive=False)
    assert_cancelled(ref, "parent")
    parent_ended.touch()
    eventually(lambda: (tmp_path / "child").read_text() == "finished")


def test_a_borrower_can_cancel(tmp_path, eventually):
    @kernel.remote
    def end(refs):
        kernel.cancel(refs[0])

    ref = sleep.remote(tmp_path / "begun")
    eventually((tmp_path / "begun").exists)
    kernel.get(end.remote([ref]))
    assert_cancelled(ref)


def test_cancelled_tasks_are_not_retried(tmp_path, eventually):
    @kernel.remote(max_retries=5, retry_exceptions=True)
    def attempts(path):
        with open(path, "a") as file:
            file.write("x")
        time.sleep(600)

    ref = attempts.remote(tmp_path / "log")
    eventually((tmp_path / "log").exists)
    kernel.cancel(ref)
    assert_cancelled(ref, "attempts")
    kernel.get(identity.remote(1))
    assert (tmp_path / "log").read_text() == "x"


def test_a_worker_works_on_after_an_interrupt(tmp_path, eventually):
    for i in range(5):
        ref = sleep.remote(tmp_path / f"begun{i}")
        eventually((tmp_path / f"begun{i}").exists)
        kernel.cancel(ref)
        assert_cancelled(ref)
        assert kernel.get([identity.remote(i) for i in range(20)]) == list(range(20))


def test_cancelling_many_quick_tasks_leaves_each_either_done_or_cancelled():
    refs = [identity.remote(i) for i in range(300)]
    for ref in refs:
        kernel.cancel(ref)
    for i, ref in enumerate(refs):
        try:
            assert kernel.get(ref, timeout=SECONDS) == i
        except exceptions.TaskCancelledError:
            continue


def test_only_references_can_be_cancelled():
    with pytest.raises(exceptions.UsageError, match="takes an ObjectRef, not a int"):
        kernel.cancel(3)


# -- calls that look themselves ----------------------------------------------------------------------------------------


def is_canceled():
    return kernel.get_runtime_context().is_canceled()


def test_a_task_knows_that_it_was_cancelled(tmp_path, eventually):
    @kernel.remote
    def knows(begun):
        before = is_canceled()
        try:
            begun.touch()
            time.sleep(SECONDS)
        except KeyboardInterrupt:
            return before, is_canceled()

    begun = tmp_path / "begun"
    ref = knows.remote(begun)
    eventually(begun.exists)
    kernel.cancel(ref)
    assert kernel.get(ref, timeout=SECONDS) == (False, True)
    assert kernel.get(knows_nothing.remote(), timeout=SECONDS) is False


@kernel.remote
def knows_nothing():
    return is_canceled()


class Looks:
    """Looks whether its call was cancelled, and makes an end of it in order."""

    def work(self, begun, ended):
        assert not is_canceled()
        begun.touch()
        try:
            while not is_canceled():
                time.sleep(0.01)
        except KeyboardInterrupt:
            ended.write_text("interrupted")
            raise
        time.sleep(0.05)  # where it would be interrupted
        ended.write_text("in order")

    def stream(self, begun, ended):
        yield 1
        self.work(begun, ended)

    def later(self):
        return is_canceled()


class LooksInLoop(Looks):
    async def idle(self):
        """Make this class one of a loop."""


class BusyCoroutine(Looks):
    """Blocks its loop, so that it can't be told: looking is the only way."""

    async def work(self, begun, ended):
        super().work(begun, ended)

    async def stream(self, begun, ended):
        yield 1
        super().work(begun, ended)


looking = pytest.mark.parametrize(
    ("cls", "options"),
    [(Looks, {}), (Looks, {"max_concurrency": 2}), (LooksInLoop, {}), (BusyCoroutine, {})],
    ids=["plain", "threads", "loop", "coroutine"],
)


@looking
def test_a_call_of_an_actor_that_looks_ends_itself_and_counts_as_cancelled(cls, options, tmp_path, eventually):
    actor = kernel.remote(cls).options(**options).remote()
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    ref = actor.work.remote(begun, ended)
    eventually(begun.exists)
    kernel.cancel(ref)
    with pytest.raises(exceptions.TaskCancelledError):
        kernel.get(ref, timeout=SECONDS)
    eventually(lambda: ended.exists() and ended.read_text())
    assert ended.read_text() == "in order"
    assert kernel.get(actor.later.remote(), timeout=SECONDS) is False


@looking
def test_a_stream_of_an_actor_that_looks_ends_itself_and_counts_as_cancelled(cls, options, tmp_path, eventually):
    actor = kernel.remote(cls).options(**options).remote()
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    stream = actor.stream.options(num_returns="streaming").remote(begun, ended)
    assert kernel.get(next(stream), timeout=SECONDS) == 1
    eventually(begun.exists)
    kernel.cancel(stream)
    with pytest.raises(exceptions.TaskCancelledError):
        kernel.get(next(stream), timeout=SECONDS)
    eventually(lambda: ended.exists() and ended.read_text())
    assert ended.read_text() == "in order"
    assert kernel.get(actor.later.remote(), timeout=SECONDS) is False


def test_a_plain_method_of_a_loop_that_was_cancelled_is_not_interrupted_but_counts_as_cancelled(tmp_path, eventually):
    class Busy(LooksInLoop):
        def work(self, begun, gate):
            begun.touch()
            wait_until(gate.exists, SECONDS, "the opening of the gate")
            return "done"

    actor = kernel.remote(Busy).remote()
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    ref = actor.work.remote(begun, gate)
    eventually(begun.exists)
    kernel.cancel(ref)
    assert not kernel.wait([ref], timeout=0.2)[0]
    gate.touch()
    with pytest.raises(exceptions.TaskCancelledError):
        kernel.get(ref, timeout=SECONDS)


def test_a_coroutine_knows_that_it_was_cancelled(tmp_path, eventually):
    @kernel.remote
    class Sleeper:
        async def sleep(self, begun, said):
            begun.touch()
            try:
                await asyncio.sleep(SECONDS)
            finally:
                said.write_text(str(is_canceled()))

    begun, said = tmp_path / "begun", tmp_path / "said"
    actor = Sleeper.remote()
    ref = actor.sleep.remote(begun, said)
    eventually(begun.exists)
    kernel.cancel(ref)
    with pytest.raises(exceptions.TaskCancelledError):
        kernel.get(ref, timeout=SECONDS)
    assert said.read_text() == "True"
