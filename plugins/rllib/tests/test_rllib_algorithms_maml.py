"""MAML: its gradient goes through the steps of adaptation exactly, each task has its policy, and adapting helps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.maml import MAML
from kernel_rllib.algorithms.maml_losses import inner_loss, outer_loss, policy_distance, wide
from kernel_rllib.algorithms.task_learning import adapted_weight
from kernel_rllib.algorithms.task_rounds import TaskSource
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.gaussian import Gaussian
from kernel_rllib.envs.games.pendulum_mass import PendulumMassEnv
from kernel_rllib.envs.games.point_goal import PointGoal
from kernel_rllib.envs.games.two_step_game import TwoStepGame
from kernel_rllib.envs.registry import EnvMaker
from kernel_rllib.envs.task import TaskSettableEnv
from kernel_rllib.errors import ConfigError, EnvError
from kernel_rllib.learners.adaptation import Adaptation, TaskLosses
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.nn.parameters import ParameterTable
from kernel_rllib.testing.reference import meta_learning

SMALL = {
    "env": PointGoal,
    "env_config": {"horizon": 5},
    "seed": 3,
    "num_envs": 6,
    "meta_batch_size": 3,
    "num_env_runners": 0,
    "num_cpus_per_env_runner": 0,
    "rollout_fragment_length": 5,
    "maml_optimizer_steps": 2,
    "model": {"fcnet_hiddens": [4]},
    "min_time_s_per_iteration": 0,
    "evaluation_duration": 6,
}


def made(**more: Any) -> MAML:
    """Return a small algorithm."""
    return MAML({**SMALL, **more})


# -- the gradient through adaptation ---------------------------------------------------------------------------------


def quadratic(matrix: Any, centre: Any) -> Callable[..., Any]:
    """Return the loss (theta - c)' A (theta - c) / 2."""

    def loss(nn: Any, parameters: Any) -> Any:
        away = parameters["theta"] - nn.constant(centre)
        return 0.5 * nn.sum(away * nn.matmul(nn.constant(matrix), away[:, None])[:, 0]), {"kl": 1.0}

    return loss


@pytest.mark.parametrize("second_order", [True, False])
def test_the_gradient_is_the_closed_form_for_quadratic_losses(second_order: bool) -> None:
    draw, rate = np.random.default_rng(0), 0.07
    matrices = [(lambda root: root @ root.T)(draw.normal(size=(5, 5))) for _ in range(3)]
    centres, theta = draw.normal(size=(3, 5)), draw.normal(size=5)
    adaptation = Adaptation(NumpyBackend(), ParameterTable({"theta": (5,)}), rate, second_order=second_order)
    inner = [lambda at, each=each: quadratic(*each) for each in zip(matrices[:2], centres[:2], strict=True)]
    task = TaskLosses(inner, quadratic(matrices[2], centres[2]))
    *_, found = adaptation.outer_gradient(task, theta)
    point, through = theta, np.eye(5)
    for matrix, centre in zip(matrices[:2], centres[:2], strict=True):
        point = point - rate * matrix @ (point - centre)
        through = (np.eye(5) - rate * matrix) @ through if second_order else through
    expected = through.T @ matrices[2] @ (point - centres[2])
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


def test_nothing_to_adapt_by_leaves_parameters_as_they_are() -> None:
    adaptation = Adaptation(NumpyBackend(), ParameterTable({"theta": (2,)}), 0.1)
    flat = quadratic(np.zeros((2, 2)), np.zeros(2))
    theta = np.array([1.0, 2.0])
    np.testing.assert_array_equal(adaptation.step(flat, theta), theta)
    np.testing.assert_array_equal(adaptation.hessian_product(flat, theta, np.zeros(2)), [0, 0])


@pytest.mark.parametrize("length", [1e-6, 1.0, 1e6])
def test_products_with_second_derivatives_are_right_for_vectors_of_any_length(length: float) -> None:
    adaptation = Adaptation(NumpyBackend(), ParameterTable({"theta": (3,)}), 0.1)
    theta, vector = np.array([0.5, -1.0, 2.0]), length * np.array([1.0, 0.3, -0.5])
    found = adaptation.hessian_product(lambda nn, p: (nn.sum(nn.square(nn.square(p["theta"]))), {}), theta, vector)
    np.testing.assert_allclose(found, 12 * theta**2 * vector, rtol=1e-6)


OBSERVED, ACTED = 3, 2
CONFIG = MAML.config_class().training(vf_clip_param=1e9, vf_loss_coeff=0.7, clip_param=0.3)
DISTRIBUTION = Gaussian(ACTED, free_log_std=True)
LINEAR = ActorCritic(OBSERVED, 2 * ACTED, free_inputs=ACTED, options=ActorCriticOptions(hidden=()))


def sampled(seed: int, rows: int = 7) -> Batch:
    """Return rows with made-up numbers."""
    draw = np.random.default_rng(seed)
    return wide(Batch({
        columns.OBS: draw.normal(size=(rows, OBSERVED)).astype(np.float32),
        columns.ACTIONS: draw.normal(size=(rows, ACTED)).astype(np.float32),
        columns.ACTION_LOGP: draw.normal(-2.5, 0.3, rows).astype(np.float32),
        columns.ACTION_DIST_INPUTS: draw.normal(0, 0.3, (rows, 2 * ACTED)).astype(np.float32),
        columns.ADVANTAGES: draw.normal(size=rows).astype(np.float32),
        columns.VALUE_TARGETS: draw.normal(size=rows).astype(np.float32),
    }))  # fmt: skip


def steps_of(batch: Batch) -> list[dict[str, Any]]:
    """Return rows as the reference takes them."""
    names = {
        "obs": columns.OBS, "action": columns.ACTIONS, "logp": columns.ACTION_LOGP,
        "advantage": columns.ADVANTAGES, "target": columns.VALUE_TARGETS,
    }  # fmt: skip
    return [{short: batch[name][row] for short, name in names.items()} for row in range(batch.count)]


def policy_of(vector: Any) -> Any:
    """Return parameters as the reference names them."""
    views = LINEAR.table.views(vector)
    return {
        "weight": views["policy/head/weight"], "bias": views["policy/head/bias"], "log_std": views["policy/free"],
        "value_weight": views["value/head/weight"][:, 0], "value_bias": views["value/head/bias"][0],
    }  # fmt: skip


def twin(vector: Any, before: list[Batch], last: Batch, rate: float, weight: float) -> float:
    """Return the outer loss of a task, by the reference."""
    policy, beside = policy_of(vector), 0.0
    for batch in before:
        old = [
            (obs, given[:ACTED], given[ACTED:])
            for obs, given in zip(batch[columns.OBS], batch[columns.ACTION_DIST_INPUTS], strict=True)
        ]
        beside += weight * meta_learning.distance(policy, old)
        policy = meta_learning.adapted(policy, steps_of(batch), rate, 0.7)
    return meta_learning.outer_loss(policy, steps_of(last), 0.7, 0.3) + beside


def twin_after(vector: Any, before: list[Batch], last: Batch, rate: float) -> float:
    """Return the outer loss of a task without what is beside it."""
    return twin(vector, before, last, rate, 0.0)


@pytest.mark.parametrize("adaptation_steps", [1, 2])
def test_loss_and_gradient_are_those_of_the_paper_for_a_linear_policy(adaptation_steps: int) -> None:
    rate, weight = 0.2, 0.4
    vector = np.random.default_rng(9).normal(0, 0.3, LINEAR.table.size)
    before, last = [sampled(seed) for seed in range(adaptation_steps)], sampled(7)

    def on(loss: Any, batch: Batch) -> Any:
        return lambda nn, parameters: loss(nn, LINEAR, parameters, batch)

    inner, outer = inner_loss(CONFIG, DISTRIBUTION), outer_loss(CONFIG, DISTRIBUTION)
    adaptation = Adaptation(NumpyBackend(), LINEAR.table, rate)
    first = adaptation.step(on(inner, before[0]), vector)
    expected = meta_learning.adapted(policy_of(vector), steps_of(before[0]), rate, 0.7)
    for name, value in policy_of(first).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-9, atol=1e-12, err_msg=name)
    task = TaskLosses(
        inner=[lambda at, batch=batch: on(inner, batch) for batch in before],
        outer=on(outer, last),
        beside=[on(policy_distance(DISTRIBUTION, weight), batch) for batch in before],
    )
    _, reports, gradient = adaptation.outer_gradient(task, vector)
    distances = [twin(vector, before[: k + 1], last, rate, 1.0) - twin_after(vector, before[: k + 1], last, rate)
                 for k in range(adaptation_steps)]  # fmt: skip
    assert np.cumsum([report["kl"] for report in reports]) == pytest.approx(distances, rel=1e-8)

    def slope(k: int, step: float = 1e-4) -> float:
        moved = [np.array(vector) for _ in range(4)]
        for each, distance in zip(moved, (step, -step, 2 * step, -2 * step), strict=True):
            each[k] += distance
        near, below, far, under = (twin(each, before, last, rate, weight) for each in moved)
        return (8 * (near - below) - (far - under)) / (12 * step)

    slopes = np.array([slope(k) for k in range(len(vector))])
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-7)
    assert np.abs(gradient - Adaptation(NumpyBackend(), LINEAR.table, rate, second_order=False).outer_gradient(
        task, vector)[2]).max() > 1e-2, "what the second order adds is not nothing"  # fmt: skip


def test_the_algorithm_differentiates_what_it_evaluates() -> None:
    algorithm = made(inner_adaptation_steps=2, inner_lr=0.5, vf_clip_param=0.05)
    batches = algorithm.play(algorithm.rounds, lambda number, samples: None)
    *before, last = next(zip(*batches, strict=True))
    learning = algorithm.task_learning
    losses, at = learning.losses_of(before, last), algorithm.learner.weights.astype(np.float64)
    adaptation, weights = learning.adaptation, learning.kl_coefficients

    def value(vector: Any) -> float:
        beside = 0.0
        for inner, distance, weight in zip(losses.inner, losses.beside, weights, strict=True):
            beside += weight / 2 * adaptation.gradient(distance, vector)[0]["kl"]
            vector = adaptation.step(inner(vector), vector)
        return float(adaptation.gradient(losses.outer, vector)[0]["total_loss"] + beside)

    *_, gradient = adaptation.outer_gradient(losses, at)
    for seed in range(3):
        way = np.random.default_rng(seed).normal(size=len(at))
        way /= np.linalg.norm(way)
        slope = (value(at + 1e-6 * way) - value(at - 1e-6 * way)) / 2e-6
        assert gradient @ way == pytest.approx(slope, rel=1e-4, abs=1e-7)


def test_weights_of_distances_follow_their_target() -> None:
    assert [adapted_weight(1.0, kl, 0.1) for kl in (0.2, 0.14, 0.08, 0.05)] == [2.0, 1.0, 1.0, 0.5]


# -- tasks -----------------------------------------------------------------------------------------------------------


class Remembers(PointGoal):
    """Shows the goal, and how far the policy's action was."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def reset(self, **given: Any) -> Any:
        seen, info = super().reset(**given)
        return np.concatenate([seen, self.get_task()]).astype(np.float32), info

    def step(self, action: Any) -> Any:
        seen, *others = super().step(action)
        return (np.concatenate([seen, self.get_task()]).astype(np.float32), *others)


def test_environments_of_a_task_share_it_and_others_have_others() -> None:
    algorithm = made(env=Remembers)
    goals = []
    for _ in range(2):
        algorithm.train()
        batches = algorithm.play(algorithm.rounds, lambda number, samples: None)
        for of_round in batches:
            goals.append([np.unique(batch[columns.OBS][:, 2:], axis=0) for batch in of_round])
            assert all(len(found) == 1 for found in goals[-1])
    flat = np.array(goals)[:, :, 0]
    assert len(np.unique(flat[0], axis=0)) == 3
    np.testing.assert_array_equal(flat[0], flat[1], err_msg="before and after adaptation")
    assert not np.isclose(flat[0], flat[2]).any()


def test_each_task_is_sampled_by_its_own_parameters() -> None:
    algorithm, steps = made(inner_lr=5.0), 5
    vectors = [algorithm.learner.weights + np.float32(0.3 * task) for task in range(3)]
    _, fragments = algorithm.rounds.sample(vectors, steps)
    module = algorithm.learner.module
    for task, fragment in enumerate(fragments):
        batch = fragment.batch()
        outputs = algorithm.learner.evaluate(lambda nn, p, b=batch: module.train(nn, p, b), vectors[task])
        np.testing.assert_allclose(
            batch[columns.ACTION_DIST_INPUTS], outputs[columns.ACTION_DIST_INPUTS], rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize(("lanes", "rows"), [(2, 8), (8, 8), (9, 16)])
def test_rows_of_a_task_are_filled_up_to_whole_blocks(lanes: int, rows: int) -> None:
    algorithm = made(num_envs=2 * lanes, meta_batch_size=2)
    sampler, seen = algorithm.runners.local.sampler, []
    forward = sampler._of_one_task

    def spy(nn: Any, parameters: Any, inputs: Any) -> Any:
        seen.append(len(inputs[columns.OBS]))
        return forward(nn, parameters, inputs)

    sampler._of_one_task = spy
    algorithm.rounds.sample([algorithm.learner.weights] * 2, 5)
    assert set(seen) == {rows}


def test_parameters_of_before_are_what_all_act_by_after_an_iteration() -> None:
    algorithm = made()
    algorithm.train()
    sampler = algorithm.runners.local.sampler
    assert {vector.tobytes() for vector in sampler._task_vectors.values()} == {algorithm.learner.weights.tobytes()}


class NoTasks(gymnasium.Env):
    """An environment without tasks."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 1.0, True, False, {}


class TooFew(NoTasks, TaskSettableEnv):
    """Draws one task, whatever it is asked for."""

    def sample_tasks(self, n_tasks: int) -> list[Any]:
        return [0]

    def get_task(self) -> Any:
        return 0

    def set_task(self, task: Any) -> None:
        pass


def test_environments_have_to_have_tasks() -> None:
    with pytest.raises(EnvError, match="has no tasks to adapt to: derive it from TaskSettableEnv too, and define samp"):
        made(env=NoTasks, env_config={})
    algorithm = made(env=NoTasks, env_config={}, use_meta_env=False)
    algorithm.train()
    assert algorithm.evaluate()["episode_reward_mean"] == 1.0
    with pytest.raises(EnvError, match=r"sample_tasks\(3\) of environment .* returned 1 tasks: return as many as its"):
        made(env=TooFew, env_config={}).train()


def test_tasks_are_drawn_by_the_seed() -> None:
    source = TaskSource(EnvMaker("point", PointGoal), {})
    first, again, other = (source.draw(4, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.isclose(first, other).any()
    source.close()


def test_masses_of_pendulums_are_tasks() -> None:
    env = PendulumMassEnv()
    env.reset(seed=1)
    masses = env.sample_tasks(50)
    assert 0.5 <= min(masses) < 1 < max(masses) <= 2
    env.set_task(masses[0])
    assert env.get_task() == masses[0]

    def speed_of(mass: float) -> float:
        env.set_task(mass)
        env.reset(seed=1)
        env.state = np.array([np.pi, 0.0])
        return float(env.step(np.array([2.0]))[0][2])

    assert speed_of(0.5) == pytest.approx(4 * speed_of(2.0), rel=1e-3)


# -- the same bits ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("session")
def test_the_bits_are_the_same_for_any_number_of_runners() -> None:
    found = []
    for runners in (0, 1, 2):
        algorithm = made(num_env_runners=runners)
        result = [algorithm.train() for _ in range(2)][-1]
        found.append((algorithm.learner.weights.tobytes(), result["adaptation_delta"]))
        algorithm.stop()
    assert found[0] == found[1] == found[2]


def test_it_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path) -> None:
    straight, resumed = made(), made()
    straight.train()
    resumed.restore(straight.save(str(tmp_path / "checkpoint")))
    weights = [algorithm.task_learning.kl_coefficients for algorithm in (straight, resumed)]
    assert weights[0] == weights[1] != [MAML.config_class().kl_coeff]
    results = [algorithm.train() for algorithm in (straight, resumed)]
    assert resumed.learner.weights.tobytes() == straight.learner.weights.tobytes()
    assert results[0]["episode_reward_mean_adapt_1"] == results[1]["episode_reward_mean_adapt_1"]


def test_evaluations_adapt_and_change_nothing_of_training() -> None:
    straight, evaluated = made(), made()
    found = evaluated.evaluate()
    assert found["adaptation_delta"] == pytest.approx(
        found["episode_reward_mean"] - found["episode_reward_mean_before"]
    )
    assert found["evaluation"]["episodes_this_iter"] == 2 * 2 * 3, "two rounds of three tasks, two environments each"
    for algorithm in (straight, evaluated):
        algorithm.train()
    assert straight.learner.weights.tobytes() == evaluated.learner.weights.tobytes()


def test_results_tell_returns_before_and_after_each_step() -> None:
    result = made(inner_adaptation_steps=2).train()
    last = result["episode_reward_mean_adapt_2"]
    assert result["adaptation_delta"] == pytest.approx(last - result["episode_reward_mean"])
    assert {"episode_reward_mean_adapt_1", "episode_len_mean_adapt_2"} <= result.keys()
    learned = result["info"]["learner"]["default_policy"]["learner_stats"]
    assert {"total_loss", "policy_loss", "vf_loss", "inner_kl", "cur_kl_coeff", "cur_lr"} <= learned.keys()
    assert result["timesteps_total"] == 3 * 6 * 5


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"meta_batch_size": 4}, "6 environments can't be shared equally by 4 tasks; set meta_batch_size to a divisor"),
        ({"batch_mode": "truncate_episodes"}, "batch_mode='truncate_episodes' lets episodes go on with other tasks"),
        ({"create_env_on_local_worker": False}, "use_meta_env=True draws tasks by an environment beside the learner"),
        ({"env_task_fn": lambda *_: 0}, "env_task_fn and use_meta_env=True both set tasks; leave one out"),
        ({"model": {"fcnet_activation": "relu"}}, "model fcnet_activation='relu' has a kink, and second derivatives"),
        ({"env": TwoStepGame, "env_config": {}}, "adapts the policy of one agent to its tasks, and the environment ha"),
        ({"input_": "somewhere"}, "input has no effect on MAML: each iteration samples by parameters that were adapt"),
    ],
)
def test_settings_that_do_not_fit_are_refused(more: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(**more)


def test_settings_are_those_of_rllib() -> None:
    config = MAML.config_class()
    expected = {
        "inner_adaptation_steps": 1, "maml_optimizer_steps": 5, "inner_lr": 0.1, "use_meta_env": True, "use_gae": True,
        "lambda_": 1.0, "kl_coeff": 0.0005, "kl_target": 0.01, "vf_loss_coeff": 0.5, "entropy_coeff": 0,
        "clip_param": 0.3, "vf_clip_param": 10, "lr": 1e-3, "rollout_fragment_length": 200, "num_env_runners": 2,
        "batch_mode": "complete_episodes", "tasks_at_once": 2,
    }  # fmt: skip
    assert {name: getattr(config, name) for name in expected} == expected


def test_a_kink_is_taken_where_there_are_no_second_derivatives() -> None:
    algorithm = made(model={"fcnet_activation": "relu", "fcnet_hiddens": [4]}, second_order=False)
    assert algorithm.train()["training_iteration"] == 1
