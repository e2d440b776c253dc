"""Distributions of actions that users write for any backend, and what is said of those that can't be taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.distributions.categorical import Categorical
from kernel_rllib.distributions.of_users import distribution_of
from kernel_rllib.errors import ConfigError, MissingDependencyError
from kernel_rllib.first_generation.catalog import ModelCatalog
from kernel_rllib.nn.numpy_ops import NumpyOps


@dataclass(frozen=True)
class Doubled(Categorical):
    """Two inputs for each action, whose sums are the logits."""

    @property
    def parameter_size(self) -> int:
        return 2 * self.size

    def _logits(self, inputs: Any) -> Any:
        return inputs[:, : self.size] + inputs[:, self.size :]

    def sample(self, nn: Any, inputs: Any, noise: Any) -> Any:
        return super().sample(nn, self._logits(inputs), noise)

    def mode(self, nn: Any, inputs: Any) -> Any:
        return super().mode(nn, self._logits(inputs))

    def log_prob(self, nn: Any, inputs: Any, actions: Any) -> Any:
        return super().log_prob(nn, self._logits(inputs), actions)

    def entropy(self, nn: Any, inputs: Any) -> Any:
        return super().entropy(nn, self._logits(inputs))

    def kl(self, nn: Any, inputs: Any, other_inputs: Any) -> Any:
        return super().kl(nn, self._logits(inputs), self._logits(other_inputs))


class OfSpace(Doubled):
    """The same, made for a space."""

    def __init__(self, action_space: Any, model_config: Any) -> None:
        super().__init__(size=int(action_space.n), start=model_config["custom_model_config"].get("start", 0))


ModelCatalog.register_custom_action_dist("of_space", OfSpace)


def ppo(**model: Any) -> PPOConfig:
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0, num_envs=4)
    config.training(train_batch_size=128, minibatch_size=64, num_epochs=2, model={"fcnet_hiddens": [8], **model})
    return config.debugging(seed=1).reporting(min_time_s_per_iteration=0)


def test_what_a_class_says_of_one_counts_where_losses_ask_for_both() -> None:
    generator = np.random.default_rng(0)
    nn, inputs, actions = NumpyOps(), generator.normal(size=(5, 6)).astype(np.float32), generator.integers(0, 3, 5)
    distribution = Doubled(3)
    log_probs, entropies = distribution.log_prob_and_entropy(nn, inputs, actions)
    assert log_probs.tobytes() == distribution.log_prob(nn, inputs, actions).tobytes()
    assert entropies.tobytes() == distribution.entropy(nn, inputs).tobytes()


def test_a_distribution_of_any_backend_acts_and_learns() -> None:
    one, same = (ppo(custom_action_dist=given).build() for given in ("of_space", Doubled(2)))
    assert one.learner.module.table.shapes()["policy/head/weight"] == (8, 4)
    before = one.learner.weights.copy()
    for algorithm in (one, same):
        algorithm.train()
    assert one.learner.backend.name == "numpy"
    assert one.learner.weights.tobytes() == same.learner.weights.tobytes() != before.tobytes()
    logits, _ = one.get_policy().model.from_batch({"obs": np.zeros((3, 4), np.float32)})
    assert one.get_policy().dist_class(logits).logp(np.zeros(3, np.int64)).shape == (3,)
    assert one.compute_single_action(np.zeros(4), explore=False) in (0, 1)


def test_the_usual_distribution_is_that_of_the_space() -> None:
    assert distribution_of(Discrete(3, start=2), {}) == Categorical(3)
    made, size = ModelCatalog.get_action_dist(Discrete(3), {})
    inputs = np.log(np.array([[0.5, 0.25, 0.25]], np.float32))
    assert size == 3 and made(inputs).logp(np.array([0])) == pytest.approx(np.log(0.5))
    assert made(inputs).sample().shape == (1,)


def test_what_is_drawn_follows_the_noise() -> None:
    nn, noise = NumpyOps(), np.array([[0.1], [0.6], [0.9]], np.float32)
    inputs = np.zeros((3, 4), np.float32)
    assert Doubled(2).sample(nn, inputs, noise).tolist() == [0, 1, 1]


class NoLogp:
    """A class that lacks most of what a distribution has."""

    def sample(self) -> Any:
        """Return nothing."""


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"custom_action_dist": "of_spac"}, "custom_action_dist is 'of_spac', and no distribution of actions was "
         "registered by that name; did you mean 'of_space'.*register_custom_action_dist"),
        ({"custom_action_dist": NoLogp}, "custom_action_dist is .*NoLogp.*, which lacks required_model_output_shape, "
         "logp, entropy; give a class that is derived from"),
        ({"custom_action_dist": Categorical}, r"Categorical can't be made with no arguments: .*size.* It is given "
         "those of action_space and model_config"),
        ({"custom_action_dist": "of_space", "free_log_std": True}, "free_log_std is an option of the usual "
         "distribution, and custom_action_dist names another; leave one"),
    ],
)  # fmt: skip
def test_wrong_distributions_are_refused(model: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ppo(**model).build()


def test_what_can_not_be_registered_is_refused() -> None:
    with pytest.raises(ConfigError, match="a distribution of actions was registered as 3: .*; give a name"):
        ModelCatalog.register_custom_action_dist(3, OfSpace)  # type: ignore[arg-type]


def test_algorithms_whose_losses_know_the_distribution_refuse_another() -> None:
    config = DQNConfig().environment("CartPole-v1").training(model={"custom_action_dist": "of_space"})
    with pytest.raises(ConfigError, match=r"DQNConfig: DQN does not act on model\['custom_action_dist'\], as A2C"):
        config.build()


def test_without_torch_a_class_over_tensors_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    methods = ("required_model_output_shape", "sample", "logp", "entropy")
    given = type("OverTensors", (), {name: staticmethod(lambda *_: 2) for name in methods})
    with pytest.raises(MissingDependencyError, match=r"OverTensors needs the library 'torch'.*kernel-rllib\[torch\]"):
        ppo(custom_action_dist=given).build()
