"""Environments that never return: who waits is told where they are, and a runner that hangs is replaced."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from kernel_rllib.algorithms.a3c import A3CConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs.whereabouts import whereabouts_of
from kernel_rllib.errors import RunnersLostError

import kernel

pytestmark = pytest.mark.usefixtures("session")


PATIENCE_SECONDS = 120
STEP_SECONDS = 3
"""Seconds in which any machine takes a step, where the place at which one hangs is compared with the very line."""


class Maze(gymnasium.Env[Any, Any]):
    """Ten steps; the first copy of a runner hangs at its third step, where it resets, or where it is made."""

    observation_space = gymnasium.spaces.Box(0.0, 10.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, env_config: dict[str, Any]) -> None:
        self.hangs_in, self.folder = env_config["hangs_in"], Path(env_config["folder"])
        self.slow = env_config.get("slow", 0.0)
        self.worker = getattr(env_config, "worker_index", 0)
        self.count = self.resets = 0
        if self.hangs_in == "init" and self.worker == 1:
            self.hang()  # in init

    def hang(self) -> None:
        """Hang, once, in a runner, or here until there is a file."""
        if self.worker == 1 and not (self.folder / "hung").exists():
            (self.folder / "hung").write_text(str(os.getpid()))
            while True:
                time.sleep(0.05)
        while self.worker == 0 and not (self.folder / "enough").exists():
            time.sleep(0.01)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.count = 0
        self.resets += 1
        if self.hangs_in == "reset" and self.resets == 2:
            self.hang()  # in reset
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        time.sleep(self.slow)
        if self.hangs_in == "step" and self.count == 3:
            self.hang()  # in step
        return np.full(1, self.count, np.float32), 1.0, self.count == 10, False, {}


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until it is true."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def config(folder: Path, hangs_in: str, runners: int = 1, **more: Any) -> PPOConfig:
    """Return settings that have little patience."""
    made = PPOConfig().environment(
        Maze, env_config={"folder": str(folder), "hangs_in": hangs_in, **more}, disable_env_checking=True
    )
    made.env_runners(num_env_runners=runners, num_envs=1, num_cpus_per_env_runner=0, sample_timeout_s=0.3)
    made.fault_tolerance(env_runner_health_probe_timeout_s=0.4).debugging(seed=0)
    return made.training(train_batch_size=16, minibatch_size=16, num_epochs=1, model={"fcnet_hiddens": [4]})


@pytest.mark.parametrize("method", ["step", "reset"])
def test_a_runner_that_hangs_is_ended_and_replaced(
    tmp_path: Path, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    algorithm = config(tmp_path, method).build()
    algorithm.runners.foreach(lambda runner: runner.index)  # it is made
    assert algorithm.train()["num_env_steps_sampled"] == 16
    late, lost, *_ = (message for message in caplog.messages if message.startswith("runner 1"))
    place = f"Maze.{method}(), at test_rllib_hanging_environments.py, line"
    assert "has not sampled its 16 steps within 0.3 s" in late
    assert "runner 1, with the lanes [0], died: its process was ended, as its environments made no step for" in lost
    assert place in lost and f"self.hang()  # in {method}" in lost and "env_runner_health_probe_timeout_s" in lost
    assert not Path(f"/proc/{(tmp_path / 'hung').read_text()}").exists()
    algorithm.stop()


MADE_WITHIN = 8
"""Seconds that any machine starts a runner in."""
NOT_MADE = r"its process was ended, as it was not made within 8 s: it is in Maze.__init__\(\), at test_rllib_hang"


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_runner_whose_constructor_hangs_is_ended_and_replaced(
    tmp_path: Path, evaluates: bool, caplog: pytest.LogCaptureFixture
) -> None:
    made = config(tmp_path, "init", runners=0 if evaluates else 1)
    made.fault_tolerance(env_runner_restore_timeout_s=MADE_WITHIN)
    algorithm = made.evaluation(evaluation_num_env_runners=int(evaluates), evaluation_duration=3).build()
    if evaluates:
        assert algorithm.evaluate()["episodes_this_iter"] == 3
    else:
        wait_until(lambda: kernel.KeyValue("kernel_rllib.runners").keys() != [])  # it says where it is
        assert algorithm.train()["num_env_steps_sampled"] == 16
        late = caplog.messages[0]
        assert late.startswith("runner 1 is waited for, and is still being made: it is in Maze.__init__(), at test_")
        assert "if it is not made within 8 s (env_runner_restore_timeout_s), it counts as lost" in late
    lost = next(message for message in caplog.messages if message.startswith("runner 1, with the lanes"))
    assert re.search(NOT_MADE, lost) and "self.hang()  # in init. Look what the constructors of its env" in lost
    assert not Path(f"/proc/{(tmp_path / 'hung').read_text()}").exists()
    assert kernel.KeyValue("kernel_rllib.runners").keys() == []
    algorithm.stop()


def test_a_constructor_that_hangs_is_an_error_where_lost_runners_are(tmp_path: Path) -> None:
    made = config(tmp_path, "init").fault_tolerance(restart_failed_env_runners=False)
    algorithm = made.fault_tolerance(env_runner_restore_timeout_s=MADE_WITHIN).build()
    with pytest.raises(RunnersLostError, match=f"runner 1 died: {NOT_MADE}"):
        algorithm.workers.foreach_env_runner(lambda worker: worker.worker_index)
    algorithm.stop()


def test_what_hangs_in_a_process_of_a_runner_is_named_by_its_own_line(tmp_path: Path) -> None:
    made = config(tmp_path, "step").env_runners(gym_env_vectorize_mode="processes")
    made.fault_tolerance(restart_failed_env_runners=False, env_runner_health_probe_timeout_s=STEP_SECONDS)
    algorithm = made.build()
    with pytest.raises(
        RunnersLostError, match=r"it is in Maze.step\(\), at .* # in step, in process \d+, which"
    ) as lost:
        algorithm.train()
    assert f"in process {(tmp_path / 'hung').read_text()}, which steps lane 0. If they are only slow" in str(lost.value)
    algorithm.stop()


def test_what_hangs_in_an_actor_of_its_own_is_named_too(tmp_path: Path) -> None:
    made = config(tmp_path, "step").env_runners(remote_worker_envs=True, num_envs=2)
    made.fault_tolerance(restart_failed_env_runners=False, env_runner_health_probe_timeout_s=STEP_SECONDS)
    algorithm = made.build()
    with pytest.raises(RunnersLostError, match=r"is in Maze.step\(\), at .* # in step, in the actor of lane [01]\."):
        algorithm.train()
    algorithm.stop()


def test_one_of_several_that_send_as_they_are_ready_is_replaced_as_soon(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = A3CConfig().environment(
        Maze, env_config={"folder": str(tmp_path), "hangs_in": "step", "slow": 0.01}, disable_env_checking=True
    )
    made.env_runners(num_env_runners=2, num_cpus_per_env_runner=0, sample_timeout_s=0.3, rollout_fragment_length=5)
    made.fault_tolerance(env_runner_health_probe_timeout_s=0.4).training(model={"fcnet_hiddens": [4]})
    algorithm = made.reporting(min_time_s_per_iteration=0).build()
    algorithm.runners.foreach(lambda runner: runner.index)  # they are made
    began = time.monotonic()
    while not any("runner 1, with the lanes" in message for message in caplog.messages):
        algorithm.train()  # the other one samples on meanwhile
        assert time.monotonic() - began < PATIENCE_SECONDS
    lost = next(message for message in caplog.messages if "runner 1, with the lanes" in message)
    assert "died: its process was ended" in lost and "Maze.step(), at test_rllib_hanging_environments.py" in lost
    assert algorithm.runners.num_healthy_runners == 2
    algorithm.stop()


def test_calls_do_not_wait_for_one_that_hangs_in_a_sample(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    algorithm = config(tmp_path, "step", runners=2).env_runners(num_envs=2, sample_timeout_s=8).build()
    workers = algorithm.workers
    assert workers.foreach_env_runner(lambda worker: worker.worker_index) == [0, 1, 2]
    algorithm.runners.request(lambda index: 8)
    wait_until(lambda: (tmp_path / "hung").exists())
    found = workers.foreach_worker(lambda worker: worker.worker_index, timeout_seconds=3)
    assert found == [0, 2]
    (said,) = (message for message in caplog.messages if "its result is left out" in message)
    assert said.startswith(
        "runner 1 has not answered a call within 3 s, and its result is left out: it is in Maze.step"
    )
    assert "# in step. Wait longer (timeout_seconds), or call others alone (remote_worker_ids)" in said
    assert workers.foreach_worker(lambda worker: worker.worker_index, False, remote_worker_ids=[2]) == [2]
    assert workers.foreach_worker(lambda worker: worker.worker_index) == [0, 1, 2]  # another is in its place
    late, lost, *_ = (message for message in caplog.messages[1:] if message.startswith("runner 1"))
    assert "has not answered a call within 8 s, and is waited for: it is in Maze.step(), at " in late
    assert "died: its process was ended" in lost and "# in step" in lost
    algorithm.stop()


def test_a_function_takes_as_long_as_it_likes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    algorithm = config(tmp_path, "nowhere").build()
    names = algorithm.workers.foreach_env(lambda env: time.sleep(1.6) or type(env.unwrapped).__name__)
    assert names == [[], ["Maze"]]
    assert not any("died" in message for message in caplog.messages)
    algorithm.stop()


def test_it_is_an_error_where_lost_runners_are(tmp_path: Path) -> None:
    made = config(tmp_path, "step").fault_tolerance(restart_failed_env_runners=False)
    algorithm = made.build()
    with pytest.raises(RunnersLostError, match=r"runner 1 died: .* is in Maze.step\(\), at .*\. If they"):
        algorithm.train()
    algorithm.stop()


def test_one_that_is_slow_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = config(tmp_path, "nowhere", slow=0.1).fault_tolerance(env_runner_health_probe_timeout_s=PATIENCE_SECONDS)
    algorithm = made.build()
    algorithm.runners.foreach(lambda runner: runner.index)  # it is made
    algorithm.train()
    (late,) = (message for message in caplog.messages if message.startswith("runner 1"))
    assert "is waited for" in late and algorithm.runners.num_healthy_runners == 1
    algorithm.stop()


def test_what_hangs_in_this_process_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Enough(logging.Handler):
        """Lets the environment go on when the warning has come."""

        def emit(self, record: logging.LogRecord) -> None:
            (tmp_path / "enough").touch()

    handler = Enough(logging.WARNING)
    logger = logging.getLogger("kernel.rllib")
    logger.addHandler(handler)
    try:
        config(tmp_path, "step", runners=0).build().train()
    finally:
        logger.removeHandler(handler)
    (said,) = caplog.messages
    assert said.startswith("environments have made no step for 0.3 s: the program is in Maze.step(), at ")
    assert "self.hang()  # in step. It waits for them; Ctrl-C ends it" in said


def test_a_thread_that_has_nothing_of_ours_is_nowhere() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    assert thread.ident is not None
    found = whereabouts_of(thread.ident)
    done.set()
    assert found.place == "" and not found.is_in_environments
