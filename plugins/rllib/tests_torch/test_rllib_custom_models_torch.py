"""Models of users in torch: of both generations, in algorithms, with the same bits for any number of runners."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.errors import ConfigError, ModuleError
from kernel_rllib.first_generation.catalog import ModelCatalog
from kernel_rllib.modules.model_v2 import FullyConnectedNetwork, TorchModelV2
from kernel_rllib.modules.rl_module import TorchRLModule
from kernel_rllib.modules.rl_module_spec import RLModuleSpec
from torch import nn


class OldModel(TorchModelV2, nn.Module):
    """A model of the first generation, with an LSTM's weights, a buffer and a loss of its own."""

    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        width = model_config["custom_model_config"].get("width", 16)
        self.norm = nn.BatchNorm1d(obs_space.shape[0])
        self.lstm = nn.LSTM(obs_space.shape[0], width, batch_first=True)
        self.body, self.value = nn.Linear(width, num_outputs), nn.Linear(width, 1)

    def forward(self, input_dict: Any, state: Any, seq_lens: Any) -> Any:
        features, _ = self.lstm(self.norm(input_dict["obs"])[:, None])
        self.features = torch.tanh(features[:, 0])
        return self.body(self.features), state

    def value_function(self) -> Any:
        return self.value(self.features).squeeze(-1)

    def custom_loss(self, policy_loss: Any, loss_inputs: Any) -> Any:
        self.decay = sum((weight**2).sum() for weight in self.parameters())
        return policy_loss + 1e-4 * self.decay

    def metrics(self) -> dict[str, Any]:
        return {"decay": self.decay}


class NewModule(TorchRLModule):
    """A module of today's API."""

    def setup(self) -> None:
        width = self.model_config["width"]
        self.body = nn.Sequential(nn.Linear(self.observation_space.shape[0], width), nn.Tanh())
        self.policy, self.value = nn.Linear(width, self.action_space.n), nn.Linear(width, 1)

    def _forward(self, batch: Any, **more: Any) -> dict[str, Any]:
        return {"action_dist_inputs": self.policy(self.body(batch["obs"]))}

    def compute_values(self, batch: Any, embeddings: Any = None) -> Any:
        return self.value(self.body(batch["obs"])).squeeze(-1)


class Plain(nn.Module):
    """A plain network of outputs and values."""

    def __init__(self, num_outputs: int, width: int = 8) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, width), nn.Linear(width, num_outputs + 1)

    def forward(self, obs: Any) -> Any:
        found = self.last(torch.relu(self.first(obs)))
        return found[:, :-1], found[:, -1]


class OnlyOutputs(nn.Linear):
    """A plain network of outputs alone."""

    def __init__(self) -> None:
        super().__init__(4, 2)


ModelCatalog.register_custom_model("old_model", OldModel)
GIVEN: dict[str, Any] = {
    "old": {"model": {"custom_model": "old_model", "custom_model_config": {"width": 12}}},
    "dense": {"model": {"custom_model": FullyConnectedNetwork, "fcnet_hiddens": [8, 8]}},
    "new": {"spec": RLModuleSpec(module_class=NewModule, model_config={"width": 8})},
    "plain": {"model": {"custom_model": Plain, "custom_model_config": {"width": 6}}},
}


def with_model(config: Any, given: Any, **env_runners: Any) -> Any:
    runners = {"num_env_runners": 0, "num_envs": 4, "num_cpus_per_env_runner": 0, **env_runners}
    made = config.environment("CartPole-v1").env_runners(**runners).debugging(seed=2)
    made.training(model=given.get("model", {})).reporting(min_time_s_per_iteration=0)
    return made.rl_module(rl_module_spec=given["spec"]) if "spec" in given else made


def ppo(given: Any, **env_runners: Any) -> Any:
    learning = {"train_batch_size": 96, "minibatch_size": 48, "num_epochs": 2, "lr": 1e-3}
    return with_model(PPOConfig().training(**learning), given, **env_runners)


def dqn(given: Any, **env_runners: Any) -> Any:
    config = DQNConfig().training(num_steps_sampled_before_learning_starts=32, lr=1e-3)
    made = with_model(config, given, **env_runners)
    return made.reporting(min_sample_timesteps_per_iteration=128)


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize("algorithm", [ppo, dqn])
def test_models_of_each_kind_learn_and_go_on_after_a_checkpoint(algorithm: Any, kind: str, tmp_path: Any) -> None:
    first = algorithm(GIVEN[kind]).build()
    before = first.learner.weights.copy()
    result = first.train()
    assert first.learner.backend.name == "torch" and not np.array_equal(first.learner.weights, before)
    path = first.save(str(tmp_path))
    first.train()
    resumed = algorithm(GIVEN[kind]).build()
    resumed.restore(path)
    if algorithm is ppo:  # replay is not kept in checkpoints
        resumed.train()
        assert resumed.learner.weights.tobytes() == first.learner.weights.tobytes()
    if kind == "old":
        assert result["learners"]["default_policy"]["model/decay"] > 0


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("kind", ["old", "new"])
def test_two_runners_give_the_bits_of_none(kind: str) -> None:
    alone, two = ppo(GIVEN[kind]).build(), ppo(GIVEN[kind], num_env_runners=2).build()
    for _ in range(2):
        alone.train()
        two.train()
    assert two.learner.weights.tobytes() == alone.learner.weights.tobytes()
    two.stop()


def test_parameters_and_buffers_are_in_the_one_vector() -> None:
    algorithm = ppo(GIVEN["old"]).build()
    table = algorithm.learner.module.table
    assert table.size == 4 * 4 + 4 * 12 * (4 + 12 + 2) + 12 * 2 + 2 + 12 + 1
    mean = table["model/norm/running_mean"].place
    algorithm.train()
    assert np.abs(algorithm.learner.weights[mean]).max() > 0  # it follows the batches of the learner


def test_the_same_seed_gives_the_same_first_parameters() -> None:
    one, same, other = (ppo(GIVEN["plain"]).debugging(seed=seed).build().learner.weights for seed in (1, 1, 2))
    assert one.tobytes() == same.tobytes() != other.tobytes()


class NoValues(OldModel):
    """A model that forgets its values."""

    def value_function(self) -> Any:
        return TorchModelV2.value_function(self)


class Wrong(Plain):
    """A network whose outputs are too many."""

    def forward(self, obs: Any) -> Any:
        found, values = super().forward(obs)
        return torch.cat([found, found], 1), values


@pytest.mark.parametrize(
    ("model", "error", "said"),
    [
        ("old_modl", ConfigError, "custom_model is 'old_modl', and no model was registered by that name; did you mean "
         "'old_model'"),
        (NoValues, ModuleError, r"NoValues gives no values of observations, which this algorithm needs; define "
         r"value_function\(self\)"),
        (OnlyOutputs, ModuleError, "OnlyOutputs gives no values .* return a pair from forward"),
        (Wrong, ModuleError, r"Wrong returned outputs of shape \[\d+, 4\] for \d+ rows of observations, and \[\d+, 2\] "
         "was expected"),
        (dict, ConfigError, r"dict made \{\}, which is no model"),
        (type("TFModelV2", (), {}), ConfigError, "TFModelV2 is a model of TensorFlow, and those can't be learned yet"),
    ],
)  # fmt: skip
def test_wrong_models_are_refused(model: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        ppo({"model": {"custom_model": model}}).build().train()


def test_arguments_that_a_constructor_does_not_take_are_named() -> None:
    with pytest.raises(ConfigError, match=r"Plain can't be made with num_outputs, heigth: .*heigth.*It is given what"):
        ppo({"model": {"custom_model": Plain, "custom_model_config": {"heigth": 3}}}).build()


def test_noise_of_the_usual_network_is_refused() -> None:
    with pytest.raises(ConfigError, match="DQNConfig: noisy=True is of the usual network"):
        dqn(GIVEN["plain"]).training(noisy=True).build()


class Parts(nn.Module):
    """A network of observations in parts."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4 + 3, 3)

    def forward(self, obs: Any) -> Any:
        assert obs["grid"].shape[1:] == (2, 2) and obs["kind"].shape[1:] == (3,)
        found = self.last(torch.cat([obs["grid"].flatten(1), obs["kind"]], 1))
        return found[:, :2], found[:, 2]


class PartsEnv(gymnasium.Env):  # type: ignore[type-arg]
    """An environment of observations in parts."""

    observation_space = gymnasium.spaces.Dict(
        grid=gymnasium.spaces.Box(-1, 1, (2, 2), np.float32), kind=gymnasium.spaces.Discrete(3)
    )
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, env_config: Any) -> None:
        self.observation_space.seed(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 1.0, True, False, {}


def test_observations_reach_a_model_in_their_parts() -> None:
    algorithm = ppo({"model": {"custom_model": Parts}}).environment(PartsEnv).build()
    before = algorithm.learner.weights.copy()
    algorithm.train()
    assert (algorithm.learner.weights[: 7 * 3] != before[: 7 * 3]).all(), "all parts of observations are learned from"


def test_the_catalog_makes_models() -> None:
    space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    actions = gymnasium.spaces.Discrete(2)
    made = ModelCatalog.get_model_v2(space, actions, 2, {"fcnet_hiddens": [256, 256]})
    assert isinstance(made, FullyConnectedNetwork)
    assert sum(parameter.numel() for parameter in made.parameters()) == 134_915
    outputs, state = made({"obs": torch.zeros(3, 4), "obs_flat": torch.zeros(3, 4)}, [], None)
    assert (outputs.shape, state, made.value_function().shape) == ((3, 2), [], (3,))
    assert len(made.variables()) == 12 and "_value.bias" in made.variables(as_dict=True)
