"""Distributions of actions of the first generation: what they draw, learn, and give for any number of runners."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Tuple
from kernel_rllib.algorithms.a3c import A3CConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.distributions.of_users import distribution_of
from kernel_rllib.errors import ConfigError, ModuleError
from kernel_rllib.first_generation.action_dist import ActionDistribution, TupleActions
from kernel_rllib.first_generation.catalog import ModelCatalog
from kernel_rllib.first_generation.torch_action_dist import (
    TorchCategorical,
    TorchDiagGaussian,
    TorchDistributionWrapper,
    TorchMultiCategorical,
)
from kernel_rllib.modules.model_v2 import TorchModelV2
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.torch_ops import TorchOps
from torch import nn

SPACE = Tuple([Discrete(2), Discrete(2)])


class Copying(gymnasium.Env):  # type: ignore[type-arg]
    """Rewards a second part of an action that is equal to the first."""

    observation_space = Box(-1, 1, (3,), np.float32)
    action_space = SPACE

    def __init__(self, env_config: Any) -> None:
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.random(3, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.np_random.random(3, np.float32), float(action[0] == action[1]), self.steps == 8, False, {}


class Autoregressive(TorchDistributionWrapper):
    """P(a1) P(a2 | a1), by a branch of the model."""

    def __init__(self, inputs: Any, model: Any) -> None:
        super().__init__(inputs, model)
        assert model.num_outputs == 6

    @staticmethod
    def required_model_output_shape(action_space: Any, model_config: Any) -> int:
        return int(model_config["custom_options"]["context"])

    def _second(self, first: Any) -> Any:
        return torch.distributions.Categorical(logits=self.model.second(first[:, None].float()))

    def _first(self) -> Any:
        return torch.distributions.Categorical(logits=self.model.first(self.inputs))

    def sample(self) -> Any:
        first = self._first().sample()
        return TupleActions([first, self._second(first).sample()])

    def deterministic_sample(self) -> Any:
        first = self._first().probs.argmax(1)
        return first, self._second(first).probs.argmax(1)

    def logp(self, actions: Any) -> Any:
        return self._first().log_prob(actions[:, 0]) + self._second(actions[:, 0]).log_prob(actions[:, 1])

    def entropy(self) -> Any:
        first = self._first()
        seconds = [self._second(torch.full((len(self.inputs),), value)).entropy() for value in (0, 1)]
        return first.entropy() + (first.probs * torch.stack(seconds, 1)).sum(1)

    def kl(self, other: Any) -> Any:
        return torch.distributions.kl.kl_divergence(self._first(), other._first())


class Branches(TorchModelV2, nn.Module):
    """A context, and two branches that the distribution asks."""

    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        self.context, self.value = nn.Linear(3, num_outputs), nn.Linear(3, 1)
        self.first, self.second = nn.Linear(num_outputs, 2), nn.Linear(1, 2)

    def forward(self, input_dict: Any, state: Any, seq_lens: Any) -> Any:
        self.seen = input_dict["obs"]
        return torch.tanh(self.context(self.seen)), state

    def value_function(self) -> Any:
        return self.value(self.seen).squeeze(-1)


ModelCatalog.register_custom_action_dist("autoregressive", Autoregressive)
BRANCHES = {
    "custom_model": Branches,
    "custom_model_config": {"context": 6},
    "custom_action_dist": "autoregressive",
}


def with_model(config: Any, env: Any, model: Any, **runners: Any) -> Any:
    given = {"num_env_runners": 0, "num_envs": 4, "num_cpus_per_env_runner": 0, **runners}
    made = config.environment(env).env_runners(**given).debugging(seed=3).training(model=model, lr=0.1)
    return made.reporting(min_time_s_per_iteration=0)


def ppo(env: Any, model: Any, **runners: Any) -> Any:
    learning = {"train_batch_size": 128, "minibatch_size": 64, "num_epochs": 4, "gamma": 0.0, "lambda_": 0.0}
    return with_model(PPOConfig().training(**learning), env, model, **runners)


def test_a_second_action_learns_to_follow_the_first(tmp_path: Any) -> None:
    algorithm = ppo(Copying, BRANCHES).build()
    first = algorithm.train()["episode_reward_mean"]
    path = algorithm.save(str(tmp_path))
    for _ in range(3):
        result = algorithm.train()
    assert first < 4.5 and result["episode_reward_mean"] > 5.5, (first, result["episode_reward_mean"])
    action = algorithm.compute_single_action(np.zeros(3), explore=False)
    assert action[0] == action[1]
    resumed = ppo(Copying, BRANCHES).build()
    resumed.restore(path)
    for _ in range(3):
        resumed.train()
    assert resumed.learner.weights.tobytes() == algorithm.learner.weights.tobytes()


@pytest.mark.usefixtures("session")
def test_runners_give_the_bits_of_none_and_send_gradients_of_it() -> None:
    alone, two = ppo(Copying, BRANCHES).build(), ppo(Copying, BRANCHES, num_env_runners=2).build()
    for algorithm in (alone, two):
        algorithm.train()
        algorithm.train()
    assert two.learner.weights.tobytes() == alone.learner.weights.tobytes()
    rows = np.zeros((2, 3), np.float32)
    told = two.workers.foreach_worker(lambda worker: worker.get_policy().compute_actions(rows)[2]["action_logp"])
    assert all(np.isfinite(each).all() for each in told)
    two.stop()
    a3c = with_model(A3CConfig(), Copying, BRANCHES, sample_async=False).build()
    place = a3c.learner.module.table["model/second/weight"].place
    before = a3c.learner.weights[place].copy()
    a3c.train()
    assert (a3c.learner.weights[place] != before).all()


GIVEN = {
    "categorical": (TorchCategorical, Discrete(3, start=1)),
    "gaussian": (TorchDiagGaussian, Box(-1, 1, (2,), np.float32)),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_numbers_are_those_of_the_usual_distributions(kind: str) -> None:
    given, space = GIVEN[kind]
    own, usual = distribution_of(space, {"custom_action_dist": given}), distribution_of(space, {})
    assert (own.parameter_size, own.action_size, own.discrete) == (
        usual.parameter_size, usual.action_size, usual.discrete,
    )  # fmt: skip
    stream, plain, tensors = np.random.default_rng(0), NumpyOps(), TorchOps()
    inputs, others = stream.normal(0.0, 0.5, (2, 16, own.parameter_size)).astype(np.float32)
    drawn = own.sample(plain, inputs, stream.random((16, 2), np.float32))
    assert drawn.shape == usual.mode(plain, inputs).shape and drawn.dtype == usual.mode(plain, inputs).dtype
    for found, expected in (
        (own.log_prob(plain, inputs, drawn), usual.log_prob(plain, inputs, drawn)),
        (own.entropy(plain, inputs), usual.entropy(plain, inputs)),
        (own.kl(plain, inputs, others), usual.kl(plain, inputs, others)),
        (own.mode(plain, inputs), usual.mode(plain, inputs)),
        (own.log_prob(tensors, torch.from_numpy(inputs), drawn).numpy(), usual.log_prob(plain, inputs, drawn)),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_row_is_drawn_by_its_own_noise_and_leaves_the_generator_of_torch_alone() -> None:
    own, ops = distribution_of(Discrete(50), {"custom_action_dist": TorchCategorical}), NumpyOps()
    inputs, noise = np.zeros((6, 50), np.float32), np.random.default_rng(1).random((6, 2), np.float32)
    before = torch.random.get_rng_state()
    together = own.sample(ops, inputs, noise)
    apart = np.concatenate([own.sample(ops, inputs[i : i + 1], noise[i : i + 1]) for i in range(6)])
    assert together.tolist() == apart.tolist() and len(set(together.tolist())) > 3
    assert torch.equal(torch.random.get_rng_state(), before)
    many = own.sample(ops, inputs[:1].repeat(1000, 0), np.random.default_rng(2).random((1000, 2), np.float32))
    counts = np.bincount(many, minlength=50)
    assert ((counts - 20) ** 2 / 20).sum() < 85, "chi squared of 49 degrees of freedom: 0.1 % are above"


def test_components_of_a_multi_discrete_are_drawn_at_once() -> None:
    class Halves(TorchMultiCategorical):
        """Components of as many actions as the space says."""

        def __init__(self, inputs: Any, model: Any) -> None:
            super().__init__(inputs, model, model.action_space.nvec)

    space = MultiDiscrete([2, 3])
    own, ops = distribution_of(space, {"custom_action_dist": Halves}), NumpyOps()
    inputs = np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32)
    drawn = own.sample(ops, inputs, np.random.default_rng(1).random((5, 2), np.float32))
    assert drawn.shape == (5, 2) and drawn.dtype == np.int64
    usual = distribution_of(space, {})
    for found, expected in (
        (own.log_prob(ops, inputs, drawn), usual.log_prob(ops, inputs, drawn)),
        (own.entropy(ops, inputs), usual.entropy(ops, inputs)),
        (own.kl(ops, inputs, inputs[::-1].copy()), usual.kl(ops, inputs, inputs[::-1].copy())),
        (own.mode(ops, inputs), usual.mode(ops, inputs)),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


class OnlyNeeded(ActionDistribution):
    """What the documents ask of a distribution, and no more."""

    @staticmethod
    def required_model_output_shape(action_space: Any, model_config: Any) -> Any:
        return 7

    def sample(self) -> Any:
        return torch.zeros(len(self.inputs), dtype=torch.int64)

    def logp(self, actions: Any) -> Any:
        return self.inputs[:, 0] * 0.01 - 0.7

    def entropy(self) -> Any:
        return self.inputs.sum(1) * 0


class Wide(OnlyNeeded):
    """Samples too many numbers."""

    def sample(self) -> Any:
        return torch.zeros(len(self.inputs), 3)


class Summed(OnlyNeeded):
    """Gives one number for all rows."""

    def logp(self, actions: Any) -> Any:
        return self.inputs.sum()


class NoSize(OnlyNeeded):
    """Asks for no inputs."""

    @staticmethod
    def required_model_output_shape(action_space: Any, model_config: Any) -> Any:
        return 0


def cart_pole(given: Any, **more: Any) -> Any:
    return ppo("CartPole-v1", {"custom_action_dist": given, "fcnet_hiddens": [8]}).training(**more)


def test_the_methods_that_the_documents_name_are_enough(tmp_path: Any) -> None:
    algorithm = cart_pole(OnlyNeeded, use_kl_loss=False).build()
    assert algorithm.learner.backend.name == "torch"
    algorithm.train()
    with pytest.raises(ModuleError, match=r"OnlyNeeded says no action .*define deterministic_sample\(self\)"):
        algorithm.compute_single_action(np.zeros(4), explore=False)
    algorithm.export_policy_model(str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["model.pt"]  # numpy alone can't play it


@pytest.mark.parametrize(
    ("given", "more", "error", "said"),
    [
        (OnlyNeeded, {}, ModuleError, r"OnlyNeeded gives no divergence from another.*set kl_coeff to 0"),
        (Wide, {}, ModuleError, r"Wide sampled 3 numbers for an action, but Discrete\(2\) has 1"),
        (Summed, {}, ModuleError, r"Summed.logp\(\) returned \[\] for 1 rows, and a tensor of \[1\] was expected"),
        (NoSize, {}, ConfigError, r"NoSize.required_model_output_shape\(\) returned 0, and a number of inputs from 1"),
    ],
)
def test_wrong_distributions_are_refused(given: Any, more: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        cart_pole(given, **more).build().train()


def test_the_numpy_framework_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="framework is 'numpy', but this distribution of actions learns in torch only"
    ):
        cart_pole(OnlyNeeded).framework("numpy").build()
