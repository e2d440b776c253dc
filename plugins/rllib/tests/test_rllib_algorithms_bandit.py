"""LinUCB and LinTS: their posteriors are exact, their choices those of the papers, and their regret grows slowly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.bandit import BanditLinTSConfig, BanditLinUCBConfig
from kernel_rllib.data import columns
from kernel_rllib.envs.games.contextual_bandits import LinearDiscreteEnv, SimpleContextualBandit, WheelBanditEnv
from kernel_rllib.envs.games.item_recommendation import ParametricItemRecoEnv
from kernel_rllib.envs.multi_agent import make_multi_agent
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.linear import UpperConfidenceBound
from kernel_rllib.learners.linear_posterior import LinearPosteriors
from kernel_rllib.modules.linear_arms import ArmFeatures, LinearArms
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.testing.reference.linear_bandits import drawn_moments, ridge, upper_bound
from kernel_rllib.training.registry import algorithm_class

CONFIGS = [BanditLinUCBConfig, BanditLinTSConfig]
KINDS = ["LinUCB", "LinTS"]
USERS = {"num_users": 3, "num_items": 12, "feature_dim": 4, "num_candidates": 5}


def made(name: str = "LinUCB", env: Any = LinearDiscreteEnv, **settings: Any) -> Any:
    return algorithm_class(name)({"env": env, "seed": 1, "num_envs": 2, **settings})


def reported(algorithm: Any) -> dict[str, Any]:
    found: dict[str, Any] = algorithm.train()["learners"]["default_policy"]
    return found


def test_a_posterior_is_that_of_the_paper_after_many_rows() -> None:
    generator = np.random.default_rng(0)
    rows, rewards = generator.normal(size=(4000, 5)), generator.normal(size=4000)
    rows[:, 4] *= 1e-3
    posteriors = LinearPosteriors(2, 5, 0.5)
    for row, reward in zip(rows, rewards, strict=True):
        posteriors.learn(1, row, float(reward))
    theta, inverse = ridge(list(rows), rewards.tolist(), 5, 0.5)
    np.testing.assert_allclose(posteriors.means[1], theta, rtol=1e-10)
    np.testing.assert_allclose(posteriors.covariance(1), inverse, rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(posteriors.means[0], 0)
    np.testing.assert_allclose(posteriors.covariance(0), 2 * np.eye(5))
    assert posteriors.rows.tolist() == [0, 4000]


def test_learning_returns_how_far_off_the_reward_was() -> None:
    posteriors = LinearPosteriors(1, 2, 1.0)
    assert posteriors.learn(0, np.array([1.0, 0.0]), 3.0) == 3.0
    assert posteriors.learn(0, np.array([2.0, 0.0]), 3.0) == pytest.approx(3.0 - 2 * 1.5)


@pytest.mark.parametrize("env", [LinearDiscreteEnv, ParametricItemRecoEnv])
@pytest.mark.parametrize("name", KINDS)
def test_each_step_is_learned_from_once_and_exactly(name: str, env: Any) -> None:
    settings = {"env_config": USERS} if env is ParametricItemRecoEnv else {}
    algorithm = made(name, env, lambda_=0.7, **settings)
    seen: list[Any] = []
    learn = algorithm.learn
    algorithm.learn = lambda fragments: seen.extend(each.batch() for each in fragments) or learn(fragments)
    algorithm.train()
    features = algorithm.learner.module.features
    assert sum(batch.count for batch in seen) == 100 == algorithm.env_steps_trained
    rows: dict[int, list[Any]] = {model: [] for model in range(features.models)}
    rewards: dict[int, list[float]] = {model: [] for model in rows}
    for batch in seen:
        models, vectors = features.of_pulled(batch[columns.OBS].astype(float), batch[columns.ACTIONS])
        for model, vector, reward in zip(models, vectors, batch[columns.REWARDS], strict=True):
            rows[model].append(vector), rewards[model].append(float(reward))
    for model in rows:
        theta, inverse = ridge(rows[model], rewards[model], features.size, 0.7)
        np.testing.assert_allclose(algorithm.posteriors.means[model], theta, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(algorithm.posteriors.covariance(model), inverse, rtol=1e-9, atol=1e-12)


def outputs_of(algorithm: Any, obs: Any) -> dict[str, Any]:
    module, learner = algorithm.learner.module, algorithm.learner
    found: dict[str, Any] = learner.evaluate(lambda nn, p: module.train(nn, p, {columns.OBS: obs}))
    return {name: np.asarray(value) for name, value in found.items()}


@pytest.mark.parametrize("env", [LinearDiscreteEnv, ParametricItemRecoEnv])
def test_the_arm_with_the_greatest_upper_bound_is_taken(env: Any) -> None:
    settings = {"env_config": USERS} if env is ParametricItemRecoEnv else {}
    algorithm = made("LinUCB", env, alpha=1.5, **settings)
    algorithm.train()
    features, posteriors = algorithm.learner.module.features, algorithm.posteriors
    obs = np.concatenate([algorithm.sample().columns[columns.OBS][0] for _ in range(20)])
    chosen = UpperConfidenceBound(1.5).choose(NumpyOps(), outputs_of(algorithm, obs), np.empty((40, 0)), 0)
    for row, action in zip(features.of_arms(obs.astype(float)), chosen, strict=True):
        models = range(features.arms) if features.item is None else [0] * features.arms
        bounds = [
            upper_bound(x, posteriors.means[model], posteriors.covariance(model), 1.5)
            for model, x in zip(models, row, strict=True)
        ]
        assert bounds[action] == pytest.approx(max(bounds), abs=1e-5)


@pytest.mark.parametrize("env", [LinearDiscreteEnv, ParametricItemRecoEnv])
def test_arms_are_taken_as_often_as_drawn_weights_say_that_they_are_best(env: Any) -> None:
    settings = {"env_config": USERS} if env is ParametricItemRecoEnv else {}
    algorithm = made("LinTS", env, alpha=0.8, **settings)
    for _ in range(2):
        algorithm.train()
    features, posteriors = algorithm.learner.module.features, algorithm.posteriors
    obs = algorithm.sample().columns[columns.OBS][0][:1]
    sampling, count, generator = algorithm.make_exploration(), 20_000, np.random.default_rng(1)
    outputs = {name: np.repeat(value, count, axis=0) for name, value in outputs_of(algorithm, obs).items()}
    noise = generator.standard_normal((count, sampling.noise.width))
    shares = np.bincount(sampling.choose(NumpyOps(), outputs, noise, 0), minlength=features.arms) / count
    arms = features.of_arms(obs.astype(float))[0]
    weights = [
        generator.multivariate_normal(posteriors.means[model], 0.64 * posteriors.covariance(model), count)
        for model in range(features.models)
    ]
    values = np.stack([(weights[0] if features.models == 1 else weights[arm]) @ x for arm, x in enumerate(arms)])
    expected = np.bincount(values.argmax(axis=0), minlength=features.arms) / count
    np.testing.assert_allclose(shares, expected, atol=0.015)
    mean, variance = drawn_moments(arms[0], posteriors.means[0], posteriors.covariance(0), 0.8)
    assert values[0].mean() == pytest.approx(mean, abs=0.03) and values[0].var() == pytest.approx(variance, rel=0.05)


def test_users_have_models_of_their_own() -> None:
    features = ArmFeatures.of(
        spaces.Dict({"item": spaces.Box(-1, 1, (2, 3)), "other": spaces.Box(0, 1, (4,)), "user": spaces.Discrete(2)}),
        2,
        12,
    )
    assert (features.models, features.size) == (1, 6)
    obs = np.concatenate([np.arange(1.0, 7.0), np.full(4, 9.0), [0.0, 1.0]])[None]
    np.testing.assert_array_equal(features.of_arms(obs)[0], [[0, 0, 0, 1, 2, 3], [0, 0, 0, 4, 5, 6]])
    models, rows = features.of_pulled(obs, np.array([1]))
    assert models.tolist() == [0] and rows.tolist() == [[0, 0, 0, 4, 5, 6]]


def test_numbers_of_a_user_are_multiplied_with_those_of_items() -> None:
    space = spaces.Dict({"item": spaces.Box(-1, 1, (1, 2)), "user": spaces.Box(-1, 1, (2,))})
    features = ArmFeatures.of(space, 1, 4)
    np.testing.assert_array_equal(features.of_arms(np.array([[2.0, 3.0, 5.0, 7.0]]))[0, 0], [10, 15, 14, 21])


@pytest.mark.parametrize("config", CONFIGS)
def test_the_best_arm_is_known_after_500_steps(config: Any) -> None:
    algorithm = config().environment(SimpleContextualBandit).debugging(seed=1).evaluation(
        evaluation_duration=100, evaluation_config={"explore": False}
    ).build()  # fmt: skip
    for _ in range(5):
        result = algorithm.train()
    assert result["episode_reward_mean"] >= 9.8
    assert algorithm.evaluate()["episode_reward_mean"] == 10
    assert 0 < result["learners"]["default_policy"]["cumulative_regret"] < 100
    learned = result["info"]["learner"]["default_policy"]["learner_stats"]
    assert learned["cumulative_regret"] == result["learners"]["default_policy"]["cumulative_regret"]


@pytest.mark.parametrize(("name", "alpha"), [("LinUCB", 1.0), ("LinTS", 0.25)])
def test_regret_grows_ever_more_slowly_where_rewards_are_linear(name: str, alpha: float) -> None:
    algorithm = made(name, env_config={"feature_dim": 6, "num_actions": 5}, alpha=alpha, num_envs=10)
    regrets = [reported(algorithm)["cumulative_regret"] for _ in range(40)]
    assert regrets[39] / regrets[3] < 2.2


def test_a_wheel_is_learned_with_a_twelfth_of_the_regret_of_any_arm() -> None:
    algorithm = made("LinTS", WheelBanditEnv, alpha=10.0, num_envs=8)
    for _ in range(20):
        algorithm.train()
    steps = algorithm.env_steps_sampled
    assert reported(algorithm)["cumulative_regret"] < 29.36 * steps * 0.08


@pytest.mark.parametrize("name", KINDS)
def test_items_are_learned_for_each_user(name: str) -> None:
    algorithm = made(name, ParametricItemRecoEnv, env_config=USERS, alpha=0.3)
    regrets = [reported(algorithm)["cumulative_regret"] for _ in range(10)]
    assert regrets[9] - regrets[8] < regrets[0] / 5


def test_nothing_is_told_of_regret_where_environments_tell_none() -> None:
    assert "cumulative_regret" not in reported(made(env="CartPole-v1"))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("env", [LinearDiscreteEnv, ParametricItemRecoEnv])
def test_it_goes_on_after_a_checkpoint_with_the_same_bits(name: str, env: Any, tmp_path: Path) -> None:
    straight, resumed = made(name, env), made(name, env)
    straight.train()
    resumed.restore(straight.save(str(tmp_path / "checkpoint")))
    found = [reported(each) for each in (straight, resumed)]
    assert found[0] == found[1]
    assert resumed.posteriors.roots.tobytes() == straight.posteriors.roots.tobytes()
    assert resumed.learner.weights.tobytes() == straight.learner.weights.tobytes()
    loaded = algorithm_class(name).from_checkpoint(str(tmp_path / "checkpoint"), trust=True)
    assert reported(loaded) == found[0]


@pytest.mark.usefixtures("session")
def test_the_bits_are_the_same_for_any_number_of_runners() -> None:
    found = []
    for runners in (0, 1, 2):
        algorithm = made("LinTS", num_env_runners=runners, num_envs=4)
        algorithm.train()
        found.append(algorithm.posteriors.roots.tobytes() + algorithm.learner.weights.tobytes())
        algorithm.stop()
    assert found[0] == found[1] == found[2]


def test_alpha_and_lambda_are_taken_as_options_of_the_model_too() -> None:
    algorithm = made(model={"alpha": 2.5, "lambda_": 4.0})
    assert algorithm.make_exploration()._alpha == 2.5
    np.testing.assert_allclose(algorithm.posteriors.covariance(0), np.eye(8) / 4)
    views = algorithm.learner.module.table.views(algorithm.learner.weights)
    np.testing.assert_allclose(views["roots"][:, :8], np.eye(8) / 2)


@pytest.mark.parametrize("kind", ["UCB", "ray.rllib.contrib.bandits.exploration.UCB", "UpperConfidenceBound"])
def test_an_exploration_has_the_names_of_all_releases(kind: str) -> None:
    assert isinstance(made("LinTS", exploration_config={"type": kind}).make_exploration(), UpperConfidenceBound)


def test_other_explorations_go_by_expected_rewards() -> None:
    algorithm = made(exploration_config={"type": "EpsilonGreedy", "epsilon": 0.2})
    assert reported(algorithm)["cumulative_regret"] > 0


def test_several_policies_learn_each_from_what_it_did() -> None:
    algorithm = made(
        env=make_multi_agent(LinearDiscreteEnv),
        env_config={"num_agents": 2},
        multiagent={
            "policies": {"left": (None, None, None, {}), "right": (None, None, None, {"alpha": 0.0})},
            "policy_mapping_fn": lambda agent, *_, **__: ("left", "right")[agent],
        },
    )
    assert set(algorithm.train()["learners"]) == {"left", "right"}
    rows = [algorithm.policies[name].posteriors.rows.sum() for name in ("left", "right")]
    assert rows == [100, 100]


class ItemsWithoutNames(gymnasium.Env[Any, Any]):
    """Shows items under a name that nobody knows, or too few of them."""

    def __init__(self, config: Any) -> None:
        self.observation_space = spaces.Dict({config["name"]: spaces.Box(-1, 1, (config["shown"], 2))})
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, True, False, {}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"env": "Pendulum-v1"}, "an arm is an action of a Discrete space, but the environment takes Box.*; take PPO"),
        ({"env": ItemsWithoutNames, "env_config": {"name": "doc", "shown": 3}},
         r"observations\['item'\], a Box of one row of features for each of the 3 actions, and there is none\. Where"),
        ({"env": ItemsWithoutNames, "env_config": {"name": "item", "shown": 2}}, "3 actions, and it is Box"),
        ({"lr": 0.1}, "lr has no effect on BanditLinUCB: a posterior is computed, without steps; lambda_ says how"),
        ({"gamma": 0.5}, "gamma has no effect on BanditLinUCB: an arm has no effect on what comes next"),
        ({"model": {"fcnet_hiddens": [8]}}, "has no effect on BanditLinUCB: rewards are linear in what is seen"),
        ({"model": {"alpa": 2.0}}, "has no option 'alpa'"),
        ({"alpha": 2.0, "model": {"alpha": 3.0}}, "alpha=2.0 and model alpha=3.0 disagree; give one of them"),
        ({"exploration_config": {"type": "UCB", "alpha": 2.0}},
         r"exploration_config has alpha, which UCB does not take: set how far it explores by training\(alpha=\.\.\.\)"),
        ({"exploration_config": {"type": "GaussianNoise"}}, "does not explore discrete actions by their values"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made("LinUCB", **{"env": LinearDiscreteEnv, **settings})


def test_it_learns_in_numpy_whatever_library_is_asked_for() -> None:
    module = LinearArms(ArmFeatures(2, 3))
    assert module.learns_in == "numpy"
    assert type(made(framework="torch").learner.backend).__name__ == "NumpyBackend"
