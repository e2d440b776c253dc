"""ES and ARS: their steps are those of the papers, and the same bits whoever plays the episodes, and after faults."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.ars import ARS, ARSConfig, best_directions
from kernel_rllib.algorithms.es import ES, ESConfig, centered_ranks, shaped
from kernel_rllib.errors import ConfigError, EnvError, RunnersLostError
from kernel_rllib.exploration.directions import Directions
from kernel_rllib.modules.dense_policy import DensePolicy
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.runners.trials import Trial
from kernel_rllib.testing.counting import Counting
from kernel_rllib.testing.reference import evolution as reference
from kernel_rllib.training.algorithm import Algorithm

import kernel

SMALL: dict[str, Any] = {
    "env": "CartPole-v1",
    "num_env_runners": 0,
    "num_envs": 4,
    "num_cpus_per_env_runner": 0,
    "gym_env_vectorize_mode": "native",
    "model": {"fcnet_hiddens": [4]},
    "eval_prob": 0.3,
    "min_time_s_per_iteration": 0,
    "evaluation_duration": 3,
    "seed": 5,
}
OF_ES = {**SMALL, "episodes_per_batch": 12, "train_batch_size": 300}
OF_ARS = {**SMALL, "num_rollouts": 6, "rollouts_used": 3, "noise_stdev": 0.3, "sgd_stepsize": 0.3}
PENDULUM = {"env": "Pendulum-v1", "action_noise_std": 0.2}
RUNS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "ES": (ES, OF_ES),
    "ARS": (ARS, OF_ARS),
    "ES with noisy actions": (ES, {**OF_ES, **PENDULUM, "episodes_per_batch": 4}),
    "ARS in a loop": (ARS, {**OF_ARS, "gym_env_vectorize_mode": "loop"}),
}


def made(kind: str, **more: Any) -> Any:
    """Return a small algorithm."""
    algorithm, settings = RUNS[kind]
    return algorithm({**settings, **more})


def trained(algorithm: Any, iterations: int) -> tuple[bytes, list[Any]]:
    """Return all parameters after some iterations, and what was learned of observations."""
    for _ in range(iterations):
        algorithm.train()
    learned = algorithm.runners.statistics["0_MeanStdFilter"].arrays()
    return algorithm.learner.weights.tobytes(), [array.tobytes() for array in learned.values()]


# -- against the papers ----------------------------------------------------------------------------------------------


def returns(seed: int, count: int = 7) -> np.ndarray:
    """Return returns of pairs, some of them equal."""
    return np.random.default_rng(seed).integers(-5, 6, (count, 2)).astype(float)


@pytest.mark.parametrize("seed", range(3))
def test_fitness_is_shaped_as_the_paper_says(seed: int) -> None:
    np.testing.assert_allclose(centered_ranks(returns(seed)), reference.centered_ranks(returns(seed)))
    signs = np.sign(returns(seed))
    np.testing.assert_array_equal(shaped(returns(seed), "sign"), signs)
    np.testing.assert_allclose(shaped(returns(seed), "centered_sign_rank"), reference.centered_ranks(signs))


@pytest.mark.parametrize("mode", ["centered_rank", "sign"])
def test_the_step_of_es_is_adams_along_the_mirrored_gradient(mode: str) -> None:
    algorithm = made("ES", return_proc_mode=mode, l2_coeff=0.1, stepsize=0.05, observation_filter="NoFilter")
    before = algorithm.learner.weights.copy().astype(np.float64)
    pairs = algorithm.play_generation()
    directions = np.stack([algorithm.directions.direction(0, i) for i in range(len(pairs.returns))]).astype(np.float64)
    ascent = 0.02 * reference.antithetic_es_gradient(directions, shaped(pairs.returns, mode), 0.02)
    np.testing.assert_allclose(algorithm.ascent(pairs), ascent, rtol=1e-4, atol=1e-7)
    algorithm.train()
    down = -ascent + 0.1 * before
    expected = before - 0.05 * down / (np.abs(down) + 1e-8)  # Adam's first step
    np.testing.assert_allclose(algorithm.learner.weights, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("used", [6, 3, 1])
def test_the_step_of_ars_is_along_the_best_directions(used: int) -> None:
    algorithm = made("ARS", rollouts_used=used)
    before = algorithm.learner.weights.copy().astype(np.float64)
    pairs = algorithm.play_generation()
    directions = np.stack([algorithm.directions.direction(0, i) for i in range(6)]).astype(np.float64)
    expected = reference.ars_gradient(directions, pairs.returns, used)
    np.testing.assert_allclose(algorithm.ascent(pairs), expected, rtol=1e-5, atol=1e-6)
    algorithm.train()
    np.testing.assert_allclose(algorithm.learner.weights, before + 0.3 * expected, rtol=1e-4, atol=1e-5)


def test_the_best_directions_are_those_with_the_best_side() -> None:
    assert best_directions(np.array([[0, 1], [9, -9], [5, 5], [-1, 9]]), 3) == [1, 3, 2]


# -- directions ------------------------------------------------------------------------------------------------------


def test_directions_are_pieces_of_one_table() -> None:
    directions = Directions(1, 5, 8)
    found = [directions.direction(generation, index) for generation in range(20) for index in range(5)]
    numbers = {number for direction in found for number in direction.tolist()}
    assert len(numbers) == 8
    assert len({direction.tobytes() for direction in found}) == 4, "there are four places for five of eight"
    large = Directions(1, 1000, 10_000_000)
    drawn = np.stack([large.direction(0, index) for index in range(20)])
    assert abs(drawn.mean()) < 0.05 and abs(drawn.std() - 1) < 0.05
    assert len(np.unique(drawn)) > 19_000


def test_a_table_that_is_too_small_is_refused() -> None:
    with pytest.raises(ConfigError, match="noise_size=10 numbers are fewer than the policy's 30 parameters"):
        made("ES", noise_size=10)


@pytest.mark.parametrize(("probability", "least", "most"), [(0.0, 0, 0), (1.0, 400, 400), (0.25, 60, 140)])
def test_undisturbed_episodes_are_as_frequent_as_asked_for(probability: float, least: int, most: int) -> None:
    directions = Directions(1, 5, 8)
    assert least <= sum(directions.is_also_undisturbed(3, index, probability) for index in range(400)) <= most


# -- the policy ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [(), (8,), (8, 5)])
@pytest.mark.parametrize("lanes", [1, 3, 16])
def test_each_lane_acts_by_its_own_parameters_with_the_same_bits(hidden: tuple[int, ...], lanes: int) -> None:
    module, nn = DensePolicy(4, 3, hidden=hidden), NumpyOps()
    stream = np.random.default_rng(0)
    vectors = stream.normal(size=(16, module.table.size)).astype(np.float32)
    obs = stream.normal(size=(16, 1, 4)).astype(np.float32)

    def given(some: Any) -> np.ndarray:
        views = {name: vectors[some][:, entry.place].reshape(-1, *entry.shape) for name, entry in module.table.items()}
        return module.infer(nn, views, {"obs": obs[some]})["action_dist_inputs"]

    together = given(slice(16))
    for first in range(0, 16 - lanes + 1, lanes):
        np.testing.assert_array_equal(given(slice(first, first + lanes)), together[first : first + lanes])
    one = module.infer(nn, module.table.views(vectors[7]), {"obs": obs[7]})["action_dist_inputs"]
    np.testing.assert_allclose(together[7], one, rtol=1e-5, atol=1e-6)


# -- trials ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", RUNS)
def test_trials_bring_the_same_in_any_company(kind: str) -> None:
    algorithm, alone = made(kind), made(kind, num_envs=1)
    trials = [Trial(index, side) for index in range(4) for side in (-1, 0, 1)]
    vector = algorithm.learner.weights
    together = algorithm.population.play(trials, vector, 2, {})
    assert together.index.tolist() == [index for index in range(4) for _ in range(3)]
    assert together.side.tolist() == [-1, 0, 1] * 4
    for place in (3, 8, 0):
        single = alone.population.play([trials[place]], vector, 2, {})
        for name in ("returns", "lengths", "count", "mean", "squares"):
            np.testing.assert_array_equal(getattr(single, name)[0], getattr(together, name)[place], err_msg=name)


def test_moments_are_those_of_what_was_acted_on() -> None:
    algorithm = made("ARS", env=Counting, env_config={"length": 3}, gym_env_vectorize_mode="loop", offset=0.25)
    found = algorithm.population.play([Trial(0, 1), Trial(0, 0)], algorithm.learner.weights, 0, {})
    assert found.returns.tolist() == [3.0, 2.25], "what is taken off is taken off disturbed episodes"
    assert found.lengths.tolist() == [3, 3] and found.count.tolist() == [3, 3]
    assert found.mean[:, 0].tolist() == [1, 1] and found.squares[:, 0].tolist() == [2, 2]


def test_both_sides_of_a_direction_play_the_same_episode() -> None:
    algorithm = made("ARS", env=Counting, env_config={"length": 2}, gym_env_vectorize_mode="loop")
    trials = [Trial(index, side) for index in range(2) for side in (-1, 1)]
    marks = algorithm.population.play(trials, algorithm.learner.weights, 0, {}).mean[:, 1]
    assert marks[0] == marks[1] != marks[2] == marks[3]
    assert marks[0] != algorithm.population.play(trials, algorithm.learner.weights, 1, {}).mean[0, 1]


def test_an_environment_that_fails_plays_the_episode_again() -> None:
    settings = {"env": Counting, "gym_env_vectorize_mode": "loop", "num_envs": 1}
    failing = made("ARS", **settings, env_config={"fails_at": 6}, restart_failed_sub_environments=True)
    trials = [Trial(0, 1)]
    vector = failing.learner.weights
    found = failing.population.play(trials, vector, 0, {})
    assert found.returns.tolist() == [4.0]
    again = failing.population.play(trials, vector, 0, {})
    np.testing.assert_array_equal(again.mean, found.mean)
    with pytest.raises(EnvError, match="the counter is stuck"):
        made("ARS", **settings, env_config={"fails_at": 2}).train()
    with pytest.raises(EnvError, match="failed 4 times in the same episode"):
        made("ARS", **settings, env_config={"fails_at": 2}, restart_failed_sub_environments=True).train()


# -- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("kind", "runners"), [("ES", 1), ("ARS", 4), *((kind, 2) for kind in RUNS)])
def test_any_number_of_runners_ends_with_the_same_bits(kind: str, runners: int) -> None:
    alone, many = made(kind), made(kind, num_env_runners=runners)
    assert trained(alone, 2) == trained(many, 2)
    one, other = alone.train(), many.train()
    for key in ("episode_reward_mean", "episodes_total", "timesteps_total", "hist_stats"):
        np.testing.assert_equal(other[key], one[key])
    assert (one["num_healthy_workers"], other["num_healthy_workers"]) == (0, runners)
    many.stop()


@pytest.mark.parametrize("kind", RUNS)
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(kind: str, tmp_path: Path) -> None:
    straight = made(kind)
    trained(straight, 2)
    path = straight.save(str(tmp_path))
    evaluated = straight.evaluate()["hist_stats"]
    expected, result = trained(straight, 1), straight.train()
    resumed = made(kind, num_envs=3)
    resumed.restore(path)
    assert resumed.evaluate()["hist_stats"] == evaluated
    assert trained(resumed, 1) == expected
    again = resumed.train()
    for key in ("episode_reward_mean", "episodes_total", "episodes_this_iter", "timesteps_total"):
        np.testing.assert_equal(again[key], result[key])
    out_of_it = Algorithm.from_checkpoint(path)
    assert type(out_of_it) is RUNS[kind][0]
    assert trained(out_of_it, 1) == expected


def kill_first(algorithm: Any) -> None:
    """End the process of the first runner at once."""
    player = algorithm.population._players[1]
    os.kill(kernel.get(player.handle.process.remote()), signal.SIGKILL)


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("recovery", ["recreate", "ignore"])
def test_the_death_of_a_runner_changes_no_bit(recovery: str) -> None:
    alone, many = made("ES"), made("ES", num_env_runners=2, recovery=recovery)
    trained(many, 1)
    kill_first(many)
    assert trained(many, 2) == trained(alone, 3)
    assert many.population.num_healthy_players == (2 if recovery == "recreate" else 1)
    many.stop()


@pytest.mark.usefixtures("session")
def test_a_death_that_is_not_tolerated_is_an_error() -> None:
    algorithm = made("ES", num_env_runners=1, restart_failed_env_runners=False)
    trained(algorithm, 1)
    kill_first(algorithm)
    with pytest.raises(RunnersLostError, match="runner 1 died"):
        algorithm.train()
    algorithm.stop()


def test_what_is_reported() -> None:
    algorithm = made("ES", eval_prob=1.0, report_length=4)
    result = algorithm.train()
    assert result["episodes_this_iter"] >= 18 and result["timesteps_total"] >= 300
    assert result["episodes_this_iter"] == result["info"]["episodes_so_far"] == result["episodes_total"]
    assert {"weights_norm", "grad_norm", "update_ratio"} <= result["info"].keys()
    assert "disturbed_return_mean" in result["info"]["learner"]["default_policy"]["learner_stats"]
    assert np.isfinite(result["episode_reward_mean"])
    assert np.isnan(made("ES", eval_prob=0.0).train()["episode_reward_mean"])


def test_a_batch_has_as_many_steps_as_asked_for() -> None:
    short = made("ES", train_batch_size=1, episodes_per_batch=5, eval_prob=0.0).train()
    assert short["episodes_this_iter"] == 6, "episodes come in pairs"
    assert made("ES", train_batch_size=900, episodes_per_batch=2, eval_prob=0.0).train()["timesteps_total"] >= 900


def test_the_filter_of_training_is_that_of_evaluations_and_single_actions() -> None:
    algorithm = made("ARS")
    trained(algorithm, 1)
    statistics = algorithm.runners.statistics["0_MeanStdFilter"]
    assert statistics.count == algorithm.env_steps_sampled
    rows = algorithm.inference.rows([statistics.mean.astype(np.float32)])
    np.testing.assert_allclose(rows, 0, atol=1e-6)
    assert algorithm.config.get_evaluation_config_object().observation_filter == "MeanStdFilter"
    assert algorithm.compute_single_action(np.zeros(4, np.float32)) in (0, 1)
    unfiltered = made("ARS", observation_filter="NoFilter")
    unfiltered.train()
    assert not unfiltered.runners.statistics


class Both(gymnasium.Env[Any, Any]):
    """Takes a direction and a force; the reward is how near both are to what they should be."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Dict({"force": spaces.Box(-2, 2, (1,), np.float32), "way": spaces.Discrete(3)})

    def __init__(self, env_config: Any) -> None:
        self.left = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin."""
        self.left = 3
        return np.ones(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Compare."""
        assert self.action_space.contains(action)
        self.left -= 1
        reward = -abs(float(action["force"][0]) - 1.0) - float(action["way"] != 2)
        return np.ones(2, np.float32), reward, self.left == 0, False, {}


def test_actions_of_several_parts_are_learned() -> None:
    settings = {"env": Both, "gym_env_vectorize_mode": "loop", "num_rollouts": 8, "rollouts_used": 4, "eval_prob": 1.0}
    algorithm = made("ARS", **settings, noise_stdev=0.5, sgd_stepsize=0.2, observation_filter="NoFilter")
    assert algorithm.train()["episode_reward_mean"] < -2.5
    assert max(algorithm.train()["episode_reward_mean"] for _ in range(25)) > -1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env_to_module_connector": lambda env: []}, "env_to_module_connector=.* has no effect on ES"),
        ({"update_worker_filter_stats": False}, "update_worker_filter_stats=False has no effect on ES"),
        ({"model": {"use_lstm": True}}, r"ES does not act on model\['use_lstm'\], as A2C, "),
    ],
)
def test_what_has_no_effect_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made("ES", **settings)


def test_the_configs_build_them() -> None:
    for config, algorithm in ((ESConfig(), ES), (ARSConfig(), ARS)):
        built = config.environment("CartPole-v1").env_runners(num_env_runners=0).build()
        assert type(built) is algorithm


def test_it_learns_to_balance_the_pole() -> None:
    algorithm = made("ARS", num_envs=16, num_rollouts=8, rollouts_used=4, model={"fcnet_hiddens": []})
    while algorithm.env_steps_sampled < 40_000:
        algorithm.train()
    assert algorithm.evaluate()["episode_reward_mean"] >= 400
