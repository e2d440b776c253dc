"""Lanes in processes of their own: the same numbers as in a loop, and what is left when processes die."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.envs import env_process, shared_slots
from kernel_rllib.envs.contract import VectorEnv
from kernel_rllib.envs.lane import restart_seed
from kernel_rllib.envs.loop import LoopEnv
from kernel_rllib.envs.making import make_vector
from kernel_rllib.envs.process_pool import ProcessPool, divided
from kernel_rllib.envs.processes import ProcessesEnv
from kernel_rllib.errors import EnvError, SpaceError
from kernel_rllib.spaces import nested
from kernel_rllib.testing.environments import Broken, Counter, Nested, Slow, WithoutForm, counters

from kernel.testing.leaks import no_leaks

PATIENCE_SECONDS = 120


@contextlib.contextmanager
def processes(makers: list[Any], **settings: Any) -> Iterator[ProcessesEnv]:
    env = ProcessesEnv(makers, **settings)
    try:
        yield env
    finally:
        env.close()


def leaves_nothing(test: Any) -> Any:
    """Run a test within the check for leaks: the arrays that it still held would count as left behind."""

    @functools.wraps(test)
    def checked(*args: Any, **kwargs: Any) -> None:
        with no_leaks():
            test(*args, **kwargs)

    return checked


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_lanes_are_divided_evenly() -> None:
    assert divided(8, 2, 1) == [[range(0, 4), range(4, 8)]]
    assert divided(7, 2, 2) == [[range(0, 1), range(1, 3)], [range(3, 5), range(5, 7)]]
    for lanes in range(1, 12):
        for parts in (1, 2):
            for count in range(1, lanes // parts + 1):
                found = [lane for part in divided(lanes, count, parts) for each in part for lane in each]
                assert found == list(range(lanes))


@pytest.mark.parametrize("parts", [1, 2])
@leaves_nothing
def test_the_numbers_are_those_of_a_loop(parts: int) -> None:
    makers = [lambda length=length: Counter(length, tells=length == 3) for length in (2, 3, 4, 5, 6)]
    loop = LoopEnv(makers, max_episode_steps=5)
    with processes(makers, num_processes=2, num_parts=parts, max_episode_steps=5) as env:
        assert isinstance(env, VectorEnv) and len(env.pids) == 2 and len(env.parts) == parts
        assert env.observation_space == loop.observation_space and env.action_space == loop.action_space
        seeds = [3, 4, None, 6, 7]
        expected, found = loop.reset(seeds), env.reset(seeds)
        known = [lane for lane, seed in enumerate(seeds) if seed is not None]
        np.testing.assert_array_equal(found[known], expected[known])
        assert env.reset_infos == loop.reset_infos == {1: {"begun": True}}
        for number in range(17):
            actions = np.array([number % 5, 1, 2, 3, 4])
            one, other = loop.step(actions), env.step(actions)
            np.testing.assert_array_equal(other.obs[known], one.obs[known])
            for field in ("rewards", "terminateds", "truncateds"):
                np.testing.assert_array_equal(getattr(other, field), getattr(one, field))
            assert other.final_obs.keys() == one.final_obs.keys() and other.void == ()
            for lane in one.final_obs.keys() & set(known):
                np.testing.assert_array_equal(other.final_obs[lane], one.final_obs[lane])
            assert other.infos == one.infos and other.reset_infos == one.reset_infos
        assert env.reset_lane(3, seed=9).tolist() == loop.reset_lane(3, seed=9).tolist()
        np.testing.assert_array_equal(env.step(actions).obs[3], loop.step(actions).obs[3])
        assert env.reset_lane(1)[0] == 0 and env.reset_infos == {1: {"begun": True}}


def test_nested_spaces_and_calls_into_the_processes() -> None:
    with processes([Nested] * 3, num_processes=2) as env:
        loop = LoopEnv([Nested] * 3)
        env.reset([0, 1, 2])
        loop.reset([0, 1, 2])
        actions = (np.array([1, 2, 0]), np.array([[0.5, 0], [0.25, 0], [0, 0]], np.float32))
        one, other = loop.step(actions), env.step(actions)
        for found, expected in zip(nested.leaves(other.obs), nested.leaves(one.obs), strict=True):
            np.testing.assert_array_equal(found, expected)
        assert other.rewards.tolist() == [1.5, 2.25, 0]
        assert env.foreach(lambda inner: inner.count) == [1, 1, 1]
        env.foreach(lambda inner: setattr(inner, "count", 7))
        assert env.foreach(lambda inner: inner.count) == [7, 7, 7]
        assert env.render(2).max() == 7
        with pytest.raises(ZeroDivisionError) as caught:
            env.foreach(lambda inner: 1 // 0)
        assert "Traceback" in str(caught.value.__cause__) and "foreach" in str(caught.value.__cause__)
        with pytest.raises(EnvError, match=r"the actions don't fit 3 lanes of Tuple"):
            env.step((np.zeros(2, np.int64), np.zeros((3, 2), np.float32)))


def test_lanes_move_between_processes() -> None:
    with processes(counters(2, length=5), num_processes=2) as env:
        env.reset([1, 2])
        for _ in range(3):
            env.step(np.ones(2, np.int64))
        snapshot = env.snapshot(1)
        loop = LoopEnv(counters(1, length=5))
        loop.restore(0, snapshot)
        env.restore(0, snapshot)
        for _ in range(6):
            step, expected = env.step(np.ones(2, np.int64)), loop.step(np.ones(1, np.int64))
            np.testing.assert_array_equal(step.obs[0], step.obs[1])
            np.testing.assert_array_equal(step.obs[0], expected.obs[0])


def test_halves_are_stepped_apart() -> None:
    loop = LoopEnv(counters(4, length=3))
    with processes(counters(4, length=3), num_processes=2, num_parts=2) as env:
        np.testing.assert_array_equal(env.reset([0, 1, 2, 3]), loop.reset([0, 1, 2, 3]))
        first, second = env.parts
        assert (list(first.lanes), list(second.lanes)) == ([0, 1], [2, 3])
        first.send(np.array([1, 1]))
        for number in range(8):
            second.send(np.array([2, 2]))
            one = first.receive()
            found = [one.obs.copy(), one.rewards.copy(), dict(one.final_obs)]
            first.send(np.array([1, 1]))
            two = second.receive()
            expected = loop.step(np.array([1, 1, 2, 2]))
            np.testing.assert_array_equal(np.concatenate([found[0], two.obs]), expected.obs, err_msg=str(number))
            np.testing.assert_array_equal(np.concatenate([found[1], two.rewards]), expected.rewards)
            assert {*found[2], *(2 + lane for lane in two.final_obs)} == set(expected.final_obs)
        with pytest.raises(EnvError, match=r"send\(\) was called twice"):
            first.send(np.array([1, 1]))
        with pytest.raises(EnvError, match=r"receive\(\) was called without send\(\)"):
            second.receive()
        first.receive()


def test_an_environment_that_raises_names_its_lane(tmp_path: Path) -> None:
    makers = [*counters(2), lambda: Broken(2, str(tmp_path / "marker")), Counter]
    with processes(makers, num_processes=2) as env:
        env.reset([0] * 4)
        env.step(np.ones(4, np.int64))
        with pytest.raises(
            EnvError, match=r"^Broken.step\(\) failed in lane 2, in step 2 of its episode: RuntimeErr"
        ) as caught:
            env.step(np.ones(4, np.int64))
        assert "the motor is stuck" in str(caught.value.__cause__)


def test_a_lane_that_fails_begins_anew(tmp_path: Path) -> None:
    makers = [Counter, lambda: Broken(2, str(tmp_path / "marker"))]
    with processes(makers, num_processes=2, restart_failed=True) as env:
        env.reset([0, 1])
        before = env.step(np.ones(2, np.int64)).obs.copy()
        step = env.step(np.ones(2, np.int64))
        assert list(step.faults) == [1] and step.void == (1,) and step.truncateds.tolist() == [False, True]
        np.testing.assert_array_equal(step.final_obs[1], before[1])
        assert step.obs[:, 0].tolist() == [2, 0]
        assert env.step(np.ones(2, np.int64)).obs[:, 0].tolist() == [3, 1]


@pytest.mark.parametrize("parts", [1, 2])
@leaves_nothing
def test_a_killed_process_is_a_fault_of_its_lanes(parts: int) -> None:
    with processes(counters(4, length=50), num_processes=2, num_parts=parts, restart_failed=True) as env:
        env.reset([10, 11, 12, 13])
        before = env.step(np.ones(4, np.int64)).obs.copy()
        killed = env.pids[1]
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: not is_running(killed))
        step = env.step(np.ones(4, np.int64))
        lanes = [2, 3] if parts == 1 else [1, 3]
        words = "lanes 2 to 3" if parts == 1 else "lane 1 and lane 3"
        assert list(step.faults) == lanes and step.void == tuple(lanes)
        said = str(step.faults[3])
        assert said.startswith(
            f"Counter: process {killed}, which stepped {words}, was killed by signal 9 (SIGKILL). The machine may be"
        )
        others = [lane for lane in range(4) if lane not in lanes]
        assert step.truncateds[lanes].all() and not step.truncateds[others].any() and not step.terminateds.any()
        assert step.rewards[lanes].tolist() == [0, 0] and step.rewards[others].tolist() == [1, 1]
        assert step.obs[lanes, 0].tolist() == [0, 0] and step.obs[others, 0].tolist() == [2, 2]
        for lane in lanes:
            np.testing.assert_array_equal(step.final_obs[lane], before[lane])
            first = LoopEnv(counters(1)).reset([restart_seed(10 + lane, 1)])[0]
            np.testing.assert_array_equal(step.obs[lane], first)
        after = env.step(np.ones(4, np.int64))
        assert not after.faults and after.obs[lanes, 0].tolist() == [1, 1] and after.obs[others, 0].tolist() == [3, 3]
        assert killed not in env.pids


def test_a_lane_that_is_reset_in_a_new_process_is_seen_as_it_is() -> None:
    with processes(counters(2, length=50), num_processes=1, num_parts=2, restart_failed=True) as env:
        env.reset([0, 1])
        first, second = env.parts
        os.kill(env.pids[0], signal.SIGKILL)
        first.step(np.ones(1, np.int64))  # the second part has not heard of it yet
        row = second.reset_lane(0, seed=7)
        step = second.step(np.ones(1, np.int64))
        assert list(step.faults) == [0]
        np.testing.assert_array_equal(step.obs[0], row)


def test_there_are_no_more_processes_than_lanes_of_a_part() -> None:
    with processes(counters(3), num_processes=4, num_parts=2) as env:
        assert len(env.pids) == 1
        env.reset([0, 1, 2])
        assert env.step(np.ones(3, np.int64)).obs[:, 0].tolist() == [1, 1, 1]


def test_both_halves_hear_of_a_killed_process() -> None:
    with processes(counters(2, length=50), num_processes=1, num_parts=2, restart_failed=True) as env:
        env.reset([0, 1])
        first, second = env.parts
        first.send(np.ones(1, np.int64))
        second.send(np.ones(1, np.int64))
        first.receive(), second.receive()
        os.kill(env.pids[0], signal.SIGSTOP)
        first.send(np.ones(1, np.int64))
        os.kill(env.pids[0], signal.SIGKILL)
        step = first.receive()
        assert list(step.faults) == [0] and step.final_obs[0][0] == 1 and step.obs[0, 0] == 0
        second.send(np.ones(1, np.int64))
        step = second.receive()
        assert list(step.faults) == [0] and step.final_obs[0][0] == 1 and step.obs[0, 0] == 0
        second.send(np.ones(1, np.int64))
        assert second.receive().obs[0, 0] == 1


def test_a_process_that_ends_is_an_error_without_restarts(tmp_path: Path) -> None:
    with processes([lambda: Broken(1, str(tmp_path / "marker"), "exit")], num_processes=1) as env:
        env.reset([0])
        with pytest.raises(EnvError, match=r"which stepped lane 0, ended with exit code 3. The machine may be short"):
            env.step(np.ones(1, np.int64))


@leaves_nothing
def test_a_process_that_dies_again_and_again_is_an_error() -> None:
    class Fatal(Counter):
        def reset(self, **options: Any) -> Any:
            if options.get("seed") != 0:
                os._exit(4)
            return super().reset(**options)

        def step(self, action: Any) -> Any:
            os._exit(5)

    with processes([Fatal], num_processes=1, restart_failed=True) as env:
        env.reset([0])
        with pytest.raises(EnvError, match="ended with exit code 4"):
            env.step(np.ones(1, np.int64))


@leaves_nothing
def test_what_can_not_be_made_is_an_error_here() -> None:
    def broken() -> Any:
        raise OSError("no licence")

    def gone() -> Any:
        os._exit(7)

    with pytest.raises(OSError, match="^no licence") as caught:
        ProcessesEnv([Counter, broken], num_processes=2)
    assert "Traceback" in str(caught.value.__cause__)
    with pytest.raises(EnvError, match="^the environments could not be made: process .* ended with exit code 7"):
        ProcessesEnv([gone], num_processes=1)
    with pytest.raises(SpaceError, match="^observation_space is Sequence.* can't be in shared memory: step the env"):
        ProcessesEnv([WithoutForm], num_processes=1)
    with pytest.raises(EnvError, match="^1 lanes can't be divided into 2 parts"):
        ProcessesEnv([Counter], num_parts=2)


def test_an_error_that_can_not_be_sent_keeps_its_words() -> None:
    class Unsendable(Exception):
        def __init__(self, one: str, two: str) -> None:
            super().__init__(f"{one} {two}")

    with processes([Counter], num_processes=1) as env:
        env.reset([0])

        def fail(inner: Any) -> None:
            raise Unsendable("not", "easy")

        with pytest.raises(EnvError, match="^Unsendable: not easy"):
            env.foreach(fail)


def test_closing_twice_and_closing_what_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env_process, "_CLOSE_SECONDS", 0.2)
    env = ProcessesEnv([lambda: Slow(1000)], num_processes=1)
    env.reset([0])
    (part,) = env.parts
    part.send(np.ones(1, np.int64))
    (pid,) = env.pids
    env.close()
    env.close()
    assert not is_running(pid)


def test_somebody_is_told_of_a_step_that_takes_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(env_process, "_PATIENCE_SECONDS", 0.01)
    with processes([lambda: Slow(0.3)], num_processes=1) as env, caplog.at_level(logging.WARNING, "kernel.rllib"):
        env.reset([0])

        def step_and_find() -> list[str]:
            env.step(np.ones(1, np.int64))
            return [message for message in caplog.messages if "it is in Slow.step()" in message]

        wait_until(step_and_find)  # what comes first may say that the process has not taken its command yet
        said = next(message for message in caplog.messages if "Slow.step()" in message)
        assert said.startswith("a step takes more than 0 s: it is in Slow.step(), at environments.py, line ")
        assert said.endswith(f": time.sleep(self.seconds), in process {env.pids[0]}, which steps lane 0")


class Waits(Counter):
    """Takes a step when there is a file."""

    def __init__(self, file: Path) -> None:
        super().__init__(length=100)
        self.file = file

    def step(self, action: Any) -> Any:
        wait_until(self.file.exists)
        return super().step(action)


def test_a_process_without_a_command_does_not_count_as_in_its_environments(tmp_path: Path) -> None:
    pool = ProcessPool([lambda: Waits(tmp_path / "go")], divided(1, 1, 1), False, {})
    try:
        pool.reset_part(0, [0])
        process = pool.workers[0].process
        this = f"process {process.pid}, which steps lane 0"
        wait_until(lambda: process.inside().place == f"{this} and waits for a command")
        idle = process.inside()
        assert not idle.is_in_environments
        pool.start(0)
        wait_until(lambda: "Waits.step()" in process.inside().place)
        busy = process.inside()
        assert busy.is_in_environments and busy.place.endswith(f", in {this}")
        assert busy.moves == idle.moves + 1  # it has taken a command, so the time for its step began then
        (tmp_path / "go").touch()
        pool.finish(0, 0)
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: process.inside().place == f"{this} and does not say where it is")
        assert process.inside().is_in_environments
        os.kill(process.pid, signal.SIGCONT)
    finally:
        pool.close()


PROGRAM = """
import sys, time
import numpy as np
from kernel_rllib.envs.processes import ProcessesEnv
from kernel_rllib.testing.environments import Counter, Slow

if __name__ == "__main__":
    env = ProcessesEnv([Counter, lambda: Slow(1000)], num_processes=2)
    env.reset([0, 1])
    env.parts[0].send(np.ones(2, np.int64))  # one process waits for a command, one is within a long step
    print(*env.pids, flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_a_runner_that_dies(tmp_path: Path, how: signal.Signals) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    names_before = set(os.listdir("/dev/shm"))
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        pids = [int(pid) for pid in runner.stdout.readline().split()]
        assert len(pids) == 2 and all(map(is_running, pids))
        (memory,) = shared_memory(runner.pid)
        assert all(memory in shared_memory(pid) for pid in pids)
        assert set(os.listdir("/dev/shm")) == names_before  # it has no name that could be left behind
        runner.send_signal(how)
        runner.wait(PATIENCE_SECONDS)
        wait_until(lambda: not any(map(is_running, pids)))
        assert not [folder for folder in Path("/proc").glob("[0-9]*") if memory in shared_memory(int(folder.name))]


def shared_memory(pid: int) -> set[str]:
    """Return the inodes of the memory of lanes that a process holds."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return set()
    return {line.split()[4] for line in lines if "memfd:kernel-rllib-envs" in line}


def test_memory_without_memfd_is_a_file_without_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(shared_slots.os, "memfd_create")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with processes(counters(2), num_processes=1) as env:
        env.reset([0, 1])
        assert env.step(np.ones(2, np.int64)).obs[:, 0].tolist() == [1, 1]
        assert list(tmp_path.iterdir()) == []


def test_processes_of_a_named_environment() -> None:
    env = make_vector("CartPole-v1", 2, kind="processes", num_processes=1)
    try:
        expected = make_vector("CartPole-v1", 2)
        np.testing.assert_array_equal(env.reset([0, 1]), expected.reset([0, 1]))
        for _ in range(30):
            np.testing.assert_array_equal(env.step(np.ones(2, np.int64)).obs, expected.step(np.ones(2, np.int64)).obs)
    finally:
        env.close()
