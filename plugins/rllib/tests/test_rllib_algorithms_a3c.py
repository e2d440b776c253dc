"""A3C: gradients are made where experience is, applied as they come, and runners go on with what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.a2c import A2C
from kernel_rllib.algorithms.a3c import A3C
from kernel_rllib.envs.games.guess_the_action import GuessTheAction
from kernel_rllib.envs.multi_agent import make_multi_agent
from kernel_rllib.errors import ConfigError
from kernel_rllib.runners.env_runner import EnvRunner, Sample
from kernel_rllib.training.registry import algorithm_class

import kernel

LSTM = {"fcnet_hiddens": [16], "use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 4}
SMALL = {
    "env": "CartPole-v1",
    "seed": 3,
    "num_envs": 4,
    "num_env_runners": 0,
    "num_cpus_per_env_runner": 0,
    "min_time_s_per_iteration": 0,
    "rollout_fragment_length": 8,
    "lr": 1e-2,
    "model": {"fcnet_hiddens": [16]},
}


def made(**settings: Any) -> A3C:
    """Return a small algorithm with four lanes in all; with runners, one that asks them for gradients ahead."""
    return A3C({**SMALL, "sample_async": bool(settings.get("num_env_runners")), **settings})


def reported(algorithm: A3C) -> dict[str, Any]:
    """Train once, and return what the learner reports."""
    found: dict[str, Any] = algorithm.train()["learners"]["default_policy"]
    return found


@pytest.mark.parametrize("model", [{"fcnet_hiddens": [16]}, LSTM])
@pytest.mark.parametrize("entropy", [0.01, [[0, 0.1], [100, 0.0]]])
def test_in_one_process_it_is_a2c(model: dict[str, Any], entropy: Any) -> None:
    alone = made(model=model, entropy_coeff=entropy)
    same = A2C({**SMALL, "train_batch_size": 32, "model": model, "entropy_coeff": entropy, "use_exec_api": False})
    for _ in range(3):
        result, other = alone.train(), same.train()
        assert alone.learner.weights.tobytes() == same.learner.weights.tobytes()
        assert result["hist_stats"] == other["hist_stats"]
        np.testing.assert_equal(result["episode_reward_mean"], other["episode_reward_mean"])
    assert alone.env_steps_trained == alone.env_steps_sampled == 96


def test_in_one_process_it_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path) -> None:
    straight, resumed = made(), made()
    straight.train()
    path = straight.save(str(tmp_path / "checkpoint"))
    straight.train()
    resumed.restore(path)
    resumed.train()
    assert resumed.learner.weights.tobytes() == straight.learner.weights.tobytes()


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("ahead", [False, True])
def test_gradients_lag_by_what_was_learned_meanwhile(ahead: bool) -> None:
    """Runners that are asked ahead make their first two gradients with the first parameters."""
    algorithm = made(num_env_runners=2, sample_async=ahead)
    found = [reported(algorithm) for _ in range(8)]
    assert found[0]["gradient_lag_min"] == 0
    assert found[0]["gradient_lag_max"] in ((1,) if ahead else (0, 1))
    for report in found:
        least, mean, most = (report[f"gradient_lag{end}"] for end in ("_min", "", "_max"))
        assert 0 <= least <= mean <= most == int(most)
        assert least > 0 or not ahead or report is found[0], "a request of before has older parameters"
    assert algorithm.learner.version == 16
    assert algorithm.env_steps_sampled == algorithm.env_steps_trained == 16 * 16
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_one_runner_that_is_not_asked_ahead_never_lags() -> None:
    algorithm, alone = made(num_env_runners=1, sample_async=False), made()
    for _ in range(3):
        assert reported(algorithm)["gradient_lag"] == 0
        alone.train()
    assert algorithm.learner.weights.tobytes() == alone.learner.weights.tobytes()
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_it_learns_which_action_is_right_with_two_runners() -> None:
    algorithm = made(num_env_runners=2, env=GuessTheAction, lr=2e-2)
    best = 0.0
    for _ in range(300):
        best = max(best, algorithm.train()["episode_reward_mean"])
        if best > 0.95:
            break
    assert best > 0.95, "chance has 0.25"
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_a_runner_that_dies_is_replaced_while_the_others_go_on() -> None:
    algorithm = made(num_env_runners=2)
    algorithm.train()
    kernel.kill(algorithm.runners._remote[1].handle)
    for _ in range(6):
        algorithm.train()
    assert algorithm.runners.num_healthy_runners == 2
    assert algorithm.runners._remote[1].place.incarnation == 1
    assert algorithm.learner.version == 14
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_gradients_that_are_under_way_are_not_those_of_what_is_restored(tmp_path: Path) -> None:
    algorithm = made(num_env_runners=2)
    algorithm.train()
    path = algorithm.save(str(tmp_path / "checkpoint"))
    version = algorithm.learner.version
    for _ in range(3):
        algorithm.train()
    algorithm.restore(path)
    assert algorithm.learner.version == version
    assert reported(algorithm)["gradient_lag_min"] == 0
    algorithm.stop()


def test_what_a_runner_makes_of_a_sample_is_sent_in_its_place() -> None:
    def work(runner: EnvRunner, sample: Sample) -> Sample:
        return Sample({}, env_steps=sample.env_steps, made=(runner.index, sample.env_steps))

    algorithm = made()
    runner = EnvRunner(lambda: algorithm.runners.local.sampler, index=5, work=work)  # type: ignore[union-attr]
    assert runner.sample(2).made == (5, 8)


@pytest.mark.parametrize("name", ["A3C", "DDPPO"])
def test_environments_of_several_agents_are_refused(name: str) -> None:
    several = make_multi_agent("CartPole-v1")
    with pytest.raises(ConfigError, match="runners learn from what one agent does, and the environment has several"):
        algorithm_class(name)({"env": several, "num_env_runners": 1, "num_cpus_per_env_runner": 0})


def test_asynchrony_needs_runners_of_its_own() -> None:
    with pytest.raises(ConfigError, match="sample_async=True needs runners, but num_env_runners=0; set that to 1, or"):
        A3C({**SMALL, "sample_async": True})
