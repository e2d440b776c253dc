"""Images in SAC, DDPG and TD3: each network has convolutions of its own, and replay keeps bytes."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from kernel_rllib.algorithms.ddpg import DDPGConfig
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.algorithms.td3 import TD3Config
from kernel_rllib.data import columns
from kernel_rllib.modules.actor_q_critics import ActorQCritics, ActorQCriticsOptions, HiddenLayers
from kernel_rllib.modules.cnn import ConvolutionOptions
from kernel_rllib.nn.backends import backend

SMALL = HiddenLayers((16,))


class Shades(gymnasium.Env):  # type: ignore[type-arg]
    """An environment of bytes: the action to take is how bright the image is, or whether it is bright."""

    observation_space = Box(0, 255, (6, 6, 1), np.uint8)

    def __init__(self, env_config: Any) -> None:
        self.action_space = Discrete(2) if env_config["discrete"] else Box(-2, 2, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.bright = int(self.np_random.integers(2))
        return np.full((6, 6, 1), 255 * self.bright, np.uint8), {}

    def step(self, action: Any) -> Any:
        wanted = self.bright if isinstance(self.action_space, Discrete) else 2 * self.bright - 1
        reward = 1.0 - abs(float(np.reshape(action, ())) - wanted)
        return np.zeros((6, 6, 1), np.uint8), reward, True, False, {}


def shades(config: Any, *, discrete: bool = False, **training: Any) -> Any:
    made = config.environment(Shades, env_config={"discrete": discrete}).debugging(seed=1)
    made.env_runners(num_env_runners=0, num_envs=4, rollout_fragment_length=1)
    given = {"critic_lr": 3e-3, "actor_lr": 3e-3, "train_batch_size": 32, "model": {"conv_filters": [[4, 3, 3]]}}
    made.training(num_steps_sampled_before_learning_starts=64, training_intensity=8, **{**given, **training})
    return made.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=600)


NETWORKS = {"policy_model_config": {"fcnet_hiddens": [16]}, "q_model_config": {"fcnet_hiddens": [16]}}
HIDDENS = {"actor_hiddens": [16], "critic_hiddens": [16]}
GIVEN: dict[str, Any] = {
    "SAC": (SACConfig, {**NETWORKS, "alpha_lr": 3e-3}),
    "discrete SAC": (SACConfig, {**NETWORKS, "alpha_lr": 3e-3, "discrete": True}),
    "DDPG": (DDPGConfig, HIDDENS),
    "TD3": (TD3Config, HIDDENS),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_it_learns_from_images_and_keeps_bytes(kind: str) -> None:
    config, given = GIVEN[kind]
    algorithm = shades(config(), **given).build()
    assert algorithm.learner.backend.name == "torch"
    before = algorithm.learner.weights.copy()
    algorithm.train()
    for name, place in algorithm.learner.module.table.items():
        if name.endswith("convolution_0/weight"):
            changed = algorithm.learner.weights[place.place] != before[place.place]
            assert changed.all(), f"{name} is learned"
    assert algorithm.replay.ring.columns[columns.OBS].dtype == np.uint8
    dark, bright = (np.full((6, 6, 1), shade, np.uint8) for shade in (0, 255))
    low, high = (float(np.reshape(algorithm.compute_single_action(o, explore=False), ())) for o in (dark, bright))
    assert high - low > 0.9, (low, high)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_torch_and_numpy_agree(dtype: Any) -> None:
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (3, 8, 9, 2), np.uint8).astype(dtype)
    actions = generator.normal(size=(3, 2)).astype(np.float32)
    options = ActorQCriticsOptions(policy=SMALL, critic=SMALL, convolutions=ConvolutionOptions([[4, 3, 2]]))
    module = ActorQCritics((8, 9, 2), 4, action_inputs=2, options=options)
    assert len({name.rpartition("/convolution")[0] for name in module.table.shapes() if "convolution" in name}) == 3
    vector = module.initial(generator)

    def computed(nn: Any, parameters: Any) -> Any:
        outputs = module.train(nn, parameters, {columns.OBS: images})
        return {**outputs, **dict(enumerate(module.q_values(nn, parameters, images, nn.constant(actions))))}

    plain, torch = (backend(name).evaluate(computed, vector, module.table) for name in ("numpy", "torch"))
    assert len(plain) == 3 and plain[0].shape == (3,)
    for name, value in plain.items():
        np.testing.assert_allclose(torch[name], value, rtol=1e-4, atol=1e-4)
