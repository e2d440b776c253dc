"""Models of users without torch: modules of their own, and what is said where torch is missing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.data import columns
from kernel_rllib.errors import ConfigError, MissingDependencyError
from kernel_rllib.modules.contracts import PolicyModule, QModule
from kernel_rllib.modules.episode_pieces import episode_pieces
from kernel_rllib.modules.layers import Dense
from kernel_rllib.modules.module import Inputs, Outputs, Parameter, Parameters
from kernel_rllib.modules.recurrent import LSTM
from kernel_rllib.modules.registry import register_model
from kernel_rllib.modules.rl_module_spec import RLModuleSpec
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops


class Linear(PolicyModule):
    """A linear policy and value."""

    def __init__(self, observation_shape: tuple[int, ...], num_outputs: int, gain: float = 1.0) -> None:
        begins = initializers.orthogonal(gain)
        self.policy = Dense("policy", observation_shape[0], num_outputs, None, begins)
        self.value = Dense("value", observation_shape[0], 1, None, begins)

    def parameters(self) -> Sequence[Parameter]:
        return [*self.policy.parameters(), *self.value.parameters()]

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        obs = inputs[columns.OBS]
        values = self.value(nn, parameters, obs)
        return {
            columns.ACTION_DIST_INPUTS: self.policy(nn, parameters, obs),
            columns.VF_PREDS: nn.reshape(values, (values.shape[0],)),
        }

    def own_loss(self, nn: Ops, parameters: Parameters, total: Any, batch: Inputs) -> tuple[Any, Outputs]:
        decay = nn.sum(nn.square(parameters["policy/weight"]))
        return total + 1e-3 * decay, {"decay": decay}


class LinearValues(QModule):
    """Linear values of actions."""

    def __init__(self, observation_shape: tuple[int, ...], num_outputs: int) -> None:
        self.values_of = Dense("values", observation_shape[0], num_outputs, None, initializers.orthogonal(1.0))

    def parameters(self) -> Sequence[Parameter]:
        return self.values_of.parameters()

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        return {columns.Q_VALUES: self.values_of(nn, parameters, inputs[columns.OBS])}


class Remembers(PolicyModule):
    """A policy and a value after an LSTM."""

    def __init__(self, observation_shape: tuple[int, ...], num_outputs: int) -> None:
        self.memory = LSTM("memory", observation_shape[0], 8)
        self.heads = Dense("heads", 8, num_outputs + 1, None, initializers.orthogonal(1.0))

    def parameters(self) -> Sequence[Parameter]:
        return [*self.memory.parameters(), *self.heads.parameters()]

    def state(self) -> dict[str, tuple[int, ...]]:
        return self.memory.state()

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        features, after = self.memory(nn, parameters, nn.constant(inputs[columns.OBS]), inputs)
        found = self.heads(nn, parameters, features)
        return {
            columns.ACTION_DIST_INPUTS: found[:, :-1],
            columns.VF_PREDS: nn.reshape(found[:, -1:], (found.shape[0],)),
            columns.STATE_OUT: after,
        }


register_model("linear", Linear)


def config(made: Any, model: Any, **env_runners: Any) -> Any:
    runners = {"num_env_runners": 0, "num_envs": 4, "num_cpus_per_env_runner": 0, **env_runners}
    made = made.environment("CartPole-v1").env_runners(**runners).debugging(seed=2)
    made = made.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=64)
    if isinstance(model, RLModuleSpec):
        return made.rl_module(rl_module_spec=model)
    return made.training(model={"custom_model": model})


def ppo(model: Any, **env_runners: Any) -> Any:
    learning = {"train_batch_size": 64, "minibatch_size": 32, "num_epochs": 2, "lr": 1e-3}
    return config(PPOConfig().training(**learning), model, **env_runners)


@pytest.mark.parametrize("model", ["linear", Linear, f"{__name__}.Linear", RLModuleSpec(Linear, {"gain": 0.5})])
def test_a_module_of_ones_own_learns_in_numpy(model: Any) -> None:
    algorithm = ppo(model).build()
    before = algorithm.learner.weights.copy()
    result = algorithm.train()
    assert algorithm.learner.backend.name == "numpy" and type(algorithm.learner.module) is Linear
    assert not np.array_equal(algorithm.learner.weights, before)
    assert result["learners"]["default_policy"]["decay"] > 0


def test_values_of_ones_own_learn_in_numpy() -> None:
    settings = DQNConfig().training(num_steps_sampled_before_learning_starts=32, lr=1e-3)
    algorithm = config(settings, LinearValues).build()
    before = algorithm.learner.weights.copy()
    algorithm.train()
    assert not np.array_equal(algorithm.learner.weights, before)


def test_pieces_of_sequences_are_of_one_episode_each() -> None:
    resets = np.array([[True, False, False], [False, True, False], [False, True, False], [False, False, False]])
    pieces = episode_pieces(resets)
    assert pieces.rows.tolist() == [[0, 3, 6, 9], [1, 1, 1, 1], [4, 4, 4, 4], [7, 10, 10, 10], [2, 5, 8, 11]]
    assert (pieces.lengths.tolist(), pieces.lanes.tolist()) == ([4, 1, 1, 2, 4], [0, 1, 1, 1, 2])
    assert pieces.begins.tolist() == [True, False, True, True, False]
    np.testing.assert_array_equal(pieces.rows.reshape(-1)[pieces.places], np.arange(12))


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("model", [Linear, Remembers])
def test_two_runners_give_the_bits_of_none(model: Any) -> None:
    alone, two = ppo(model).build(), ppo(model, num_env_runners=2).build()
    for _ in range(2):
        alone.train()
        two.train()
    assert two.learner.weights.tobytes() == alone.learner.weights.tobytes()
    two.stop()


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("liner", "custom_model is 'liner', and no model was registered by that name; did you mean 'linear'"),
        (LinearValues, "LinearValues is no PolicyModule, which this algorithm needs; derive it from kernel_rllib"),
        (RLModuleSpec(), "rl_module_spec is .*, and an RLModuleSpec with a module_class was expected"),
    ],
)
def test_wrong_models_are_refused(model: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ppo(model).build()


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="custom_model and rl_module_spec both name a model; give one of them"):
        ppo(RLModuleSpec(Linear)).training(model={"custom_model": Linear}).build()
    with pytest.raises(ConfigError, match="use_lstm=True has no effect on a model of your own"):
        ppo(Linear).training(model={"use_lstm": True}).build()
    with pytest.raises(ConfigError, match="a model was registered as 'nothing': None; give a name, and a class"):
        register_model("nothing", None)


def test_without_torch_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match=r"the model object needs the library 'torch'.*pip install"):
        ppo(object).build()
