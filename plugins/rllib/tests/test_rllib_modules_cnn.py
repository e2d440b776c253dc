"""Convolutions over images: which there are for a size, how many parameters, and images that stay bytes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.connectors.preprocessors import preprocessor_of
from kernel_rllib.data import columns
from kernel_rllib.envs.games.catch import Catch
from kernel_rllib.errors import ConfigError, MissingDependencyError
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.modules.cnn import ConvolutionOptions, filters_for, image_encoder, numbers_of
from kernel_rllib.modules.q_network import QNetwork, QNetworkOptions
from kernel_rllib.nn import initializers
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.products import ROW_BLOCK

GLOROT = initializers.glorot_uniform()


def encoder(*shape: int, filters: Any = None) -> Any:
    return image_encoder("body", shape, ConvolutionOptions(filters=filters), GLOROT)


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((84, 84, 4), [(21, 21), (11, 11), (1, 1)]),
        ((42, 42, 3), [(21, 21), (11, 11), (1, 1)]),
        ((96, 96, 3), [(24, 24), (12, 12), (1, 1)]),
        ((64, 64, 4), [(32, 32), (16, 16), (8, 8), (3, 3)]),
        ((240, 320, 3), [(35, 36), (9, 9), (1, 1)]),
        ((480, 640, 3), [(35, 36), (9, 9), (1, 1)]),
        ((10, 10, 1), [(5, 5), (1, 1)]),
        ((10, 5, 1), [(5, 3), (3, 2)]),
        ((3, 3, 2), [(2, 2)]),
    ],
)
def test_what_is_left_of_images_by_default(shape: tuple[int, int, int], sizes: list[Any]) -> None:
    left, found = shape[:2], []
    made = encoder(*shape)
    for convolution in made.convolutions:
        left = convolution.size(*left)
        found.append(left)
    assert found == sizes
    assert made.outputs == left[0] * left[1] * made.convolutions[-1].outputs


def test_parameters_are_as_many_as_by_hand() -> None:
    one_body = (8 * 8 * 4 * 16 + 16) + (4 * 4 * 16 * 32 + 32) + (11 * 11 * 32 * 256 + 256)
    heads = (256 * 6 + 6) + (256 + 1)
    apart = ActorCritic((84, 84, 4), 6)
    shared = ActorCritic((84, 84, 4), 6, options=ActorCriticOptions(share_layers=True))
    assert (shared.table.size, apart.table.size) == (one_body + heads, 2 * one_body + heads)
    dense = ActorCritic((84, 84, 4), 6, options=ActorCriticOptions(share_layers=True, more=(64,)))
    assert dense.table.size == one_body + (256 * 64 + 64) + (64 * 6 + 6) + (64 + 1)
    values = QNetwork((84, 84, 4), 6, QNetworkOptions(heads=(256,)))
    assert values.table.size == one_body + 2 * (256 * 256 + 256) + (256 * 6 + 6) + (256 + 1)
    own = [[16, [4, 4], 2], [32, [4, 4], 2], [512, [11, 11], 1]]  # the example for images of 42 x 42
    assert encoder(42, 42, 3, filters=own).outputs == 512


def test_filters_of_any_size_are_the_callers_own_copy_of_a_rule() -> None:
    assert filters_for(30, 20) == [[16, [3, 3], 2, "same"], [32, [3, 3], 2, "same"], [64, [3, 3], 2, "same"]]
    assert [layer[0] for layer in filters_for(1000, 100)][-1] == 256


def test_bytes_become_numbers_around_zero_or_from_zero_to_one() -> None:
    images = np.array([[0, 64, 128, 255]], np.uint8)
    np.testing.assert_array_equal(numbers_of(images, True), np.array([[-1, -0.5, 0, 127 / 128]], np.float32))
    np.testing.assert_array_equal(numbers_of(images, False), images.astype(np.float32) / np.float32(255))
    numbers = images.astype(np.float32)
    assert numbers_of(numbers, True) is numbers


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("lstm", [None, 8])
def test_an_image_gives_the_same_in_any_company_and_in_sequences(share: bool, lstm: int | None) -> None:
    options = ActorCriticOptions(share_layers=share, lstm_cells=lstm, more=(16,))
    module = ActorCritic((10, 5, 2), 3, options=options)
    generator = np.random.default_rng(0)
    parameters = module.table.views(module.initial(generator))
    images = generator.integers(0, 256, (16, 10, 5, 2), np.uint8)
    nn = NumpyOps(row_block=ROW_BLOCK)

    def outputs(rows: Any, **more: Any) -> Any:
        state = {name: np.zeros((rows.shape[-4], *shape), np.float32) for name, shape in module.state().items()}
        return module.train(nn, parameters, {columns.OBS: rows, columns.STATE_IN: state, **more})

    together, few = outputs(images), outputs(images[:8])
    for name in (columns.ACTION_DIST_INPUTS, columns.VF_PREDS):
        assert together[name][:8].tobytes() == few[name].tobytes()
    if lstm:
        steps = np.stack([images[:8], images[8:]])
        sequence = outputs(steps, resets=np.ones((2, 8), bool))
        np.testing.assert_allclose(sequence[columns.VF_PREDS], together[columns.VF_PREDS], atol=1e-6)


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ([[16, [4, 4], 2], [32, [11, 11], 1]], r"conv_filters\[1\] is \[32, \[11, 11\], 1\], but of images of 20 x 20 "
         r"pixels only 10 x 10 are left before it, fewer than its kernel has; make kernels or strides smaller"),
    ],
)  # fmt: skip
def test_filters_that_do_not_fit_are_refused(filters: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        encoder(20, 20, 3, filters=filters)


def test_a_padding_of_ones_own_counts() -> None:
    made = encoder(20, 20, 3, filters=[[16, [4, 4], 2, "valid"], [32, 11, [3, 1], "same"]])
    assert made.outputs == 3 * 9 * 32


def test_images_keep_their_shape_and_their_bytes() -> None:
    kept = preprocessor_of(Box(0, 255, (64, 64, 3), np.uint8), "deepmind", {})
    assert (kept.shape, kept.dtype) == ((64, 64, 3), np.uint8)
    images = np.zeros((5, 64, 64, 3), np.uint8)
    assert kept.rows(images) is images
    floats = preprocessor_of(Box(0, 1, (8, 8, 1), np.float64), None, {})
    assert (floats.shape, floats.rows(np.zeros((2, 8, 8, 1))).dtype) == ((8, 8, 1), np.float32)
    atari = preprocessor_of(Box(0, 255, (210, 160, 3), np.uint8), "deepmind", {"dim": 42})
    assert (atari.shape, atari.dtype) == ((42, 42, 1), np.uint8)
    assert preprocessor_of(Box(0, 255, (210, 160, 3), np.uint8), None, {}).shape == (210, 160, 3)
    assert preprocessor_of(Box(0, 1, (8, 8), np.float32), None, {}).shape == (64,)


def pixels(config: Any) -> Any:
    return config.environment(Catch, env_config={"channels": True}).env_runners(num_env_runners=0)


@pytest.mark.parametrize("config", [PPOConfig, DQNConfig])
def test_without_torch_it_is_said_what_is_missing(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "kernel_rllib.nn.torch_backend", raising=False)
    with pytest.raises(
        MissingDependencyError, match="Config: this model learns in torch, which can't be imported .*Run:"
    ):
        pixels(config()).build()
    with pytest.raises(MissingDependencyError, match=r"needs the library 'torch'.*pip install 'kernel-rllib\[torch\]'"):
        pixels(config()).framework("torch").build()
    with pytest.raises(ConfigError, match="framework is 'numpy', but this model learns in torch only; set it to"):
        pixels(config()).framework("numpy").build()


def test_options_without_effect_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"are images \[10, 5, 1\], .* model fcnet_hiddens has no effect"):
        pixels(PPOConfig()).training(model={"fcnet_hiddens": [64]}).build()
    spaces = {"observation_space": Box(-1, 1, (3,)), "action_space": Discrete(2)}
    with pytest.raises(ConfigError, match="model conv_filters has no effect, as observations are rows of 3 numbers"):
        PPOConfig().environment("CartPole-v1", **spaces).training(model={"conv_filters": [[16, 3, 2]]}).build()
