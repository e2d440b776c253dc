"""Preprocessors of the user's own: what policies see of observations while training, in evaluations and when asked."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.connectors.preprocessors import preprocessor_of
from kernel_rllib.errors import ConfigError, SpaceError
from kernel_rllib.first_generation.catalog import ModelCatalog
from kernel_rllib.spaces.preprocessors import Preprocessor


class Kinds(gymnasium.Env):  # type: ignore[type-arg]
    """Rewards the action that the observed kind is named for."""

    observation_space = Dict(kind=Discrete(2), noise=Box(-1, 1, (3,), np.float32))
    action_space = Discrete(2)

    def __init__(self, env_config: Any) -> None:
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        reward, self.steps = float(action == self.kind), self.steps + 1
        return self._seen(), reward, False, self.steps == 8, {}

    def _seen(self) -> Any:
        self.kind = int(self.np_random.integers(2))
        return {"kind": self.kind, "noise": self.np_random.uniform(-1, 1, 3).astype(np.float32)}


class OnlyKind(Preprocessor):
    """Leaves out the noise; the kind becomes one of two signs, times the option `scale`."""

    def _init_shape(self, obs_space: Any, options: dict[str, Any]) -> tuple[int, ...]:
        self.scale = options["custom_options"].get("scale", 1.0)
        assert obs_space == Kinds.observation_space
        return (1,)

    def transform(self, observation: Any) -> Any:
        return np.array([self.scale * (2 * observation["kind"] - 1)])


class Grids(Preprocessor):
    """Makes an image of bytes of a number."""

    def _init_shape(self, obs_space: Any, options: dict[str, Any]) -> tuple[int, ...]:
        return (2, 2, 1)

    def transform(self, observation: Any) -> Any:
        return np.full((2, 2, 1), observation, np.uint8)

    @property
    def observation_space(self) -> Any:
        return Box(0, 255, self.shape, np.uint8)


ModelCatalog.register_custom_preprocessor("only_kind", OnlyKind)
MODEL = {"custom_preprocessor": "only_kind", "custom_model_config": {"scale": 2.0}, "fcnet_hiddens": [8]}


def with_model(config: Any, **model: Any) -> Any:
    config.environment(Kinds).env_runners(num_env_runners=0, num_envs=4).debugging(seed=1)
    return config.training(model={**MODEL, **model}, lr=0.02).reporting(min_time_s_per_iteration=0)


def ppo(**model: Any) -> Any:
    learning = {"train_batch_size": 128, "minibatch_size": 64, "num_epochs": 4, "gamma": 0.0, "lambda_": 0.0}
    return with_model(PPOConfig().training(**learning), **model)


def test_policies_see_what_it_makes_of_observations() -> None:
    algorithm = ppo().evaluation(evaluation_interval=3, evaluation_duration=8, evaluation_config={"explore": False})
    algorithm = algorithm.build()
    assert algorithm.learner.module.table.shapes()["policy/0/weight"] == (1, 8)
    results = [algorithm.train() for _ in range(3)]
    assert results[-1]["evaluation"]["episode_reward_mean"] == 8.0, "it learned what the kind means"
    seen = [{"kind": kind, "noise": np.zeros(3)} for kind in (0, 1)]
    assert [algorithm.compute_single_action(one, explore=False) for one in seen] == [0, 1]
    assert algorithm.compute_actions({"a": seen[1], "b": seen[0]}, explore=False) == {"a": 1, "b": 0}
    made = algorithm.workers.local_worker().preprocessors["default_policy"]
    assert isinstance(made, OnlyKind) and made.transform(seen[0]).tolist() == [-2.0]
    columns = algorithm.workers.local_worker().sample()
    assert set(np.unique(columns["obs"])) == {-2.0, 2.0} == set(np.unique(columns["new_obs"]))


def test_dqn_learns_from_it_too() -> None:
    config = DQNConfig().training(num_steps_sampled_before_learning_starts=32, gamma=0.0)
    algorithm = with_model(config).reporting(min_sample_timesteps_per_iteration=128).build()
    algorithm.train()
    assert algorithm.learner.module.table.size > 0
    assert algorithm.workers.local_worker().sample()["obs"].shape[1:] == (1,)


def test_images_of_bytes_stay_bytes_and_other_shapes_become_flat() -> None:
    images = preprocessor_of(Discrete(9), "deepmind", {"custom_preprocessor": Grids})
    assert (images.shape, images.dtype) == ((2, 2, 1), np.uint8)
    assert images.rows(np.array([3, 5])).sum(axis=(1, 2, 3)).tolist() == [12, 20]
    assert images.rows(np.array(4)).shape == (2, 2, 1)

    class Table(Grids):
        """A table, and no image."""

        def _init_shape(self, obs_space: Any, options: dict[str, Any]) -> tuple[int, ...]:
            return (2, 2)

        def transform(self, observation: Any) -> Any:
            return [[observation, 0], [0, 1]]

    flat = preprocessor_of(Discrete(9), None, {"custom_preprocessor": Table})
    assert flat.rows(np.array([7])).tolist() == [[7, 0, 0, 1]]
    made = ModelCatalog.get_preprocessor_for_space(Discrete(9), {"custom_preprocessor": Table})
    assert made.transform(3) == [[3, 0], [0, 1]]


class NoShape(OnlyKind):
    """Forgets what the base class does."""

    def __init__(self, obs_space: Any, options: Any) -> None:
        self.scale = 1.0


class Wide(OnlyKind):
    """Gives more than it says."""

    def transform(self, observation: Any) -> Any:
        return np.zeros(2)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ("only_kin", ConfigError, "custom_preprocessor is 'only_kin', and no preprocessor was registered by that name; "
         "did you mean 'only_kind'"),
        (dict, ConfigError, "custom_preprocessor is dict, which is no preprocessor; give a class that is derived"),
        (NoShape, ConfigError, "custom_preprocessor NoShape has the shape None, .* call Preprocessor.__init__"),
        (Wide, SpaceError, r"Wide.transform\(\) returned the shape \[2\], but Wide.shape is \[1\]; return"),
    ],
)  # fmt: skip
def test_wrong_preprocessors_are_refused(given: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        ppo(custom_preprocessor=given).build().train()
