"""MBMPO: its models learn an environment, episodes in them are what models and rewards say, and policies adapt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.mbmpo import MBMPO
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.envs.games.known_rewards import CartPoleWithReward, PendulumWithReward
from kernel_rllib.envs.games.long_term_satisfaction import LongTermSatisfaction
from kernel_rllib.errors import ConfigError, EnvError
from kernel_rllib.learners.dynamics import Dynamics, DynamicsSettings, dynamics_loss
from kernel_rllib.modules.transition_ensemble import CHANGES, TransitionEnsemble
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.testing.gradients import finite_differences
from kernel_rllib.testing.losses import loss_and_gradient
from kernel_rllib.testing.reference import dynamics as reference

SMALL = {
    "env": CartPoleWithReward,
    "seed": 3,
    "num_envs": 2,
    "num_env_runners": 0,
    "num_cpus_per_env_runner": 0,
    "rollout_fragment_length": 10,
    "horizon": 12,
    "imagined_episodes": 3,
    "maml_optimizer_steps": 1,
    "num_maml_steps": 2,
    "dynamics_model": {"ensemble_size": 3, "fcnet_hiddens": [8], "train_epochs": 3, "batch_size": 8},
    "model": {"fcnet_hiddens": [4]},
    "min_time_s_per_iteration": 0,
}
OF_PENDULUM = {"env": PendulumWithReward}


def made(**more: Any) -> MBMPO:
    """Return a small algorithm."""
    return MBMPO({**SMALL, **more})


# -- models ----------------------------------------------------------------------------------------------------------


def test_models_and_their_loss_are_those_of_single_networks() -> None:
    module, draw = TransitionEnsemble(3, 2, size=4, hidden=(5, 6)), np.random.default_rng(0)
    vector = draw.normal(0, 0.5, module.table.size)
    rows = {columns.OBS: draw.normal(size=(7, 3)), columns.ACTIONS: draw.normal(size=(7, 2))}
    views, target = module.table.views(vector), draw.normal(size=(4, 7, 3))
    found = module.train(NumpyOps(np.float64), views, rows)[CHANGES]
    layers = [[(views[f"{number}/weight"][k], views[f"{number}/bias"][k]) for number in range(3)] for k in range(4)]
    expected = [
        [reference.change(layers[k], obs, act) for obs, act in zip(*rows.values(), strict=True)] for k in range(4)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    batch = Batch({**{name: np.tile(column, (4, 1, 1)) for name, column in rows.items()}, CHANGES: target})
    metrics, gradient = loss_and_gradient(dynamics_loss(), module, vector, batch)
    total = reference.loss(layers, rows[columns.OBS], rows[columns.ACTIONS], target)
    assert metrics["dynamics_loss"] * 4 == pytest.approx(total, rel=1e-9)
    slopes = finite_differences(lambda nn, p: dynamics_loss()(nn, module, p, batch), vector, module.table)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-8)


def linear_transitions(count: int) -> dict[str, Any]:
    """Return transitions of a linear system, at scales that differ."""
    draw = np.random.default_rng(1)
    obs, actions = draw.normal(5, [1, 100], (count, 2)), draw.normal(size=(count, 1))
    following = obs + 0.1 * obs[:, ::-1] * [0.01, 1] + actions * [1, 30]
    return {columns.OBS: obs, columns.ACTIONS: actions, columns.NEXT_OBS: following}


def fitted(**settings: Any) -> tuple[Dynamics, dict[str, Any]]:
    """Return models of the linear system, and what they report."""
    given = {"ensemble_size": 2, "fcnet_hiddens": (16,), "train_epochs": 60, "batch_size": 32, "lr": 0.01, **settings}
    dynamics = Dynamics(DynamicsSettings(**given), 2, 1, NumpyBackend(), np.random.default_rng(0))
    return dynamics, dynamics.fit(linear_transitions(400), np.random.default_rng(2))


def test_models_learn_a_linear_system_at_any_scale() -> None:
    dynamics, metrics = fitted()
    assert metrics["dynamics_validation_loss"] < 0.01
    fresh = {name: column[-50:] for name, column in linear_transitions(450).items()}
    given = [np.tile(fresh[name], (2, 1, 1)) for name in (columns.OBS, columns.ACTIONS)]
    error = (dynamics.predict(*given) - fresh[columns.NEXT_OBS]) / (fresh[columns.NEXT_OBS] - fresh[columns.OBS]).std(
        axis=0
    )
    assert np.abs(error).mean() < 0.1
    assert not np.array_equal(*dynamics.predict(*given)), "models differ"


def test_a_fit_ends_when_errors_on_other_transitions_rise_and_else_with_its_epochs() -> None:
    draw = np.random.default_rng(0)
    noise = {name: draw.normal(size=(40, width)) for name, width in zip(linear_transitions(1), (2, 1, 2), strict=True)}
    settings = DynamicsSettings(ensemble_size=2, fcnet_hiddens=(32,), train_epochs=300, batch_size=8, lr=0.01)
    dynamics = Dynamics(settings, 2, 1, NumpyBackend(), draw)
    assert dynamics.fit(noise, draw)["dynamics_epochs"] < 300
    assert fitted(train_epochs=2)[1]["dynamics_epochs"] == 2
    assert "dynamics_validation_loss" not in fitted(train_epochs=2, valid_split_ratio=0.0)[1]


def test_without_scaling_models_see_numbers_as_they_are() -> None:
    scale = fitted(train_epochs=1, normalize_data=False)[0].scale
    assert scale is not None and not scale.mean[columns.OBS].any() and (scale.deviation[CHANGES] == 1).all()


# -- imagination -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, OF_PENDULUM], ids=["discrete", "continuous"])
def test_imagined_episodes_are_what_models_and_rewards_say(more: Any) -> None:
    algorithm = made(**more)
    algorithm.train()
    imagination, policy, models = algorithm.imagination, algorithm.learner.module, 3
    vectors = [algorithm.learner.weights + np.float32(0.2 * k) for k in range(models)]
    starts = np.repeat(algorithm.starts[:1][None], models, axis=0).repeat(4, axis=1)
    fragments = imagination.play(algorithm.learner, vectors, starts, 6, np.random.default_rng(0))
    env: Any = more.get("env", CartPoleWithReward)()
    for k, fragment in enumerate(fragments):
        assert fragment.shape == (6, 4)
        found, following = fragment.columns, fragment.next_obs()
        np.testing.assert_array_equal(found[columns.OBS][0], starts[k])
        for t in range(6):
            obs, chosen = found[columns.OBS][t], found[columns.ACTIONS][t]
            seen = imagination.seen_actions(chosen)
            given = [np.repeat(each[None], models, axis=0) for each in (obs, seen)]
            np.testing.assert_allclose(following[t], algorithm.dynamics.predict(*given)[k], rtol=1e-4, atol=1e-5)
            actions = algorithm.blueprint.make_module_to_env()(chosen)
            np.testing.assert_allclose(found[columns.REWARDS][t], env.reward(obs, actions, following[t]), rtol=1e-5)
        batch = fragment.batch()
        given_to = algorithm.learner.evaluate(lambda nn, p, b=batch: policy.train(nn, p, b), vectors[k])
        inputs = given_to[columns.ACTION_DIST_INPUTS]
        np.testing.assert_allclose(batch[columns.ACTION_DIST_INPUTS], inputs, rtol=1e-4, atol=1e-5)
        log_probs = algorithm.distribution.log_prob(NumpyOps(), inputs, batch[columns.ACTIONS])
        np.testing.assert_allclose(batch[columns.ACTION_LOGP], log_probs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("made_env", [PendulumWithReward, CartPoleWithReward])
def test_rewards_are_those_that_the_environment_gives(made_env: Any) -> None:
    env = made_env()
    obs, _ = env.reset(seed=1)
    for _ in range(12):
        action = env.action_space.sample()
        following, reward, terminated, *_ = env.step(action)
        found = env.reward(obs[None], np.asarray(action)[None], following[None])
        assert found[0] == pytest.approx(0.0 if terminated and made_env is CartPoleWithReward else reward, rel=1e-3)
        obs = following
        if terminated:
            break


def test_transitions_of_the_environment_are_kept_as_models_see_them() -> None:
    algorithm = made(**OF_PENDULUM)
    algorithm.train()
    env = PendulumWithReward()
    env.reset(seed=0)
    kept = algorithm.transitions
    assert len(kept[columns.OBS]) == algorithm.env_steps_sampled == 24
    assert len(algorithm.starts) == 2
    for obs, action, following in zip(*kept.values(), strict=True):
        env.state = np.array([np.arctan2(obs[1], obs[0]), obs[2]])
        np.testing.assert_allclose(env.step(action)[0], following, atol=1e-4)


def test_environments_act_by_policies_adapted_to_models_in_turn() -> None:
    algorithm = made(inner_lr=1.0)
    algorithm.train()
    adapted = algorithm._imagined(1, "act")[1]
    assert len({vector.tobytes() for vector in adapted}) == 3
    first = algorithm.env_steps_sampled
    algorithm._sample(algorithm.rounds)
    acting = algorithm.runners.local.sampler._task_vectors
    for lane in range(2):
        np.testing.assert_array_equal(acting[lane], adapted[(first + lane) % 3])


# -- the same bits ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("session")
def test_the_bits_are_the_same_for_any_number_of_runners() -> None:
    found = []
    for runners in (0, 2):
        algorithm = made(num_env_runners=runners)
        for _ in range(2):
            algorithm.train()
        found.append(algorithm.learner.weights.tobytes())
        algorithm.stop()
    assert found[0] == found[1]


def test_it_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path) -> None:
    straight, resumed = made(), made()
    straight.train()
    resumed.restore(straight.save(str(tmp_path / "checkpoint")))
    results = [algorithm.train() for algorithm in (straight, resumed)]
    assert resumed.learner.weights.tobytes() == straight.learner.weights.tobytes()
    assert resumed.dynamics.learner.weights.tobytes() == straight.dynamics.learner.weights.tobytes()
    told = [result["info"]["learner"]["default_policy"]["learner_stats"] for result in results]
    assert told[0] == told[1]
    assert {"dynamics_loss", "imagined_return", "imagined_return_adapted", "inner_kl"} <= told[0].keys()
    assert np.isfinite(resumed.evaluate()["episode_reward_mean"])


# -- what does not fit -----------------------------------------------------------------------------------------------


class NoReward(gymnasium.Env):
    """An environment that does not tell what transitions earn."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 1.0, True, False, {}


class OneNumber(NoReward):
    """Tells one number for all transitions."""

    def reward(self, obs: Any, action: Any, obs_next: Any) -> Any:
        return 1.0


def test_environments_have_to_tell_rewards() -> None:
    with pytest.raises(
        EnvError, match=r"does not tell what imagined transitions earn: define reward\(obs, action, obs"
    ):
        made(env=NoReward)
    with pytest.raises(
        EnvError, match=r"returned an array of shape \(\) for 9 transitions: return one of shape \(9,\)"
    ):
        made(env=OneNumber).train()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"dynamics_model": {"fcnet_hidens": [1]}}, "dynamics_model sets 'fcnet_hidens', which is no option; did you"),
        ({"dynamics_model": {"custom_model": NoReward}}, "dynamics_model has a custom_model, and the ensemble is dens"),
        ({"horizon": None}, "horizon=None leaves imagined episodes without an end; set it to a number of steps"),
        ({"observation_filter": "MeanStdFilter"}, "would scale what models see, who do that themselves; set it to 'N"),
        ({"meta_batch_size": 2}, "meta_batch_size has no effect on MBMPO: its tasks are the models"),
        ({"env": LongTermSatisfaction}, "has models of observations that are a Box of one axis, with actions that are"),
    ],
)
def test_settings_that_do_not_fit_are_refused(more: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(**more)


def test_settings_are_those_of_rllib() -> None:
    config = MBMPO.config_class()
    expected = {
        "num_maml_steps": 10, "maml_optimizer_steps": 8, "inner_lr": 1e-3, "inner_adaptation_steps": 1, "horizon": 200,
        "clip_param": 0.5, "kl_coeff": 0.0005, "kl_target": 0.01, "vf_loss_coeff": 0.5, "lr": 1e-3,
        "dynamics": DynamicsSettings(5, (512, 512, 512), 1e-3, 500, 500, 0.2, True),
    }  # fmt: skip
    assert {name: getattr(config, name) for name in expected} == expected


def test_options_that_rllib_leaves_empty_are_taken() -> None:
    config = MBMPO.config_class().training(dynamics_model={"custom_model": None, "custom_model_config": {}, "lr": 0.1})
    assert config.dynamics == DynamicsSettings(lr=0.1)
