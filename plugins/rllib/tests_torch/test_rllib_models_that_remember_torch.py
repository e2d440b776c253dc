"""Models of users that remember: of both generations, over sequences with ends of episodes in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.data import columns
from kernel_rllib.data.columns import Columns
from kernel_rllib.envs.games.repeat_after_me import RepeatAfterMe
from kernel_rllib.errors import ConfigError, ModuleError
from kernel_rllib.modules.custom import CustomModel
from kernel_rllib.modules.model_v2 import RecurrentNetwork, RecurrentTorchModel, TorchModelV2
from kernel_rllib.modules.rl_module import TorchRLModule, ValueFunctionAPI
from kernel_rllib.modules.rl_module_spec import RLModuleSpec
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.torch_ops import TorchOps
from kernel_rllib.training.registry import algorithm_class
from torch import nn


class OldLSTM(RecurrentNetwork, nn.Module):
    """A model of the first generation whose memory does not begin as zeros."""

    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str, cells: int = 8
    ) -> None:
        nn.Module.__init__(self)
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        self.first = nn.Linear(obs_space.shape[0], 8)
        self.lstm = nn.LSTM(8, cells, batch_first=True)
        self.policy, self.value = nn.Linear(cells, num_outputs), nn.Linear(cells, 1)

    def get_initial_state(self) -> Any:
        return [self.first.weight.new_full((self.lstm.hidden_size,), 0.5), np.zeros(self.lstm.hidden_size)]

    def forward_rnn(self, inputs: Any, state: Any, seq_lens: Any) -> Any:
        assert inputs.shape[:1] == seq_lens.shape and inputs.shape[1] == seq_lens.max()
        before = (state[0][None], state[1][None])
        self.features, (hidden, cell) = self.lstm(torch.relu(self.first(inputs)), before)
        return self.policy(self.features), [hidden[0], cell[0]]

    def value_function(self) -> Any:
        return self.value(self.features).reshape(-1)

    def custom_loss(self, policy_loss: Any, loss_inputs: Any) -> Any:
        self.rows = len(loss_inputs["obs"]), len(loss_inputs["actions"])
        return policy_loss

    def metrics(self) -> dict[str, Any]:
        return {"rows_are_equal": float(self.rows[0] == self.rows[1])}


class NewGRU(TorchRLModule, ValueFunctionAPI):
    """A module of today's API, whose state is nested."""

    def setup(self) -> None:
        self.gru = nn.GRU(self.observation_space.shape[0], self.model_config["cells"], batch_first=True)
        self.policy = nn.Linear(self.model_config["cells"], self.action_space.n)
        self.value = nn.Linear(self.model_config["cells"], 1)

    def get_initial_state(self) -> Any:
        return {"gru": {"hidden": np.full((self.model_config["cells"],), -0.25)}}

    def _forward(self, batch: Any, **more: Any) -> dict[str, Any]:
        features, hidden = self.gru(batch[Columns.OBS], batch[Columns.STATE_IN]["gru"]["hidden"][None])
        return {
            Columns.ACTION_DIST_INPUTS: self.policy(features),
            Columns.STATE_OUT: {"gru": {"hidden": hidden[0]}},
            Columns.EMBEDDINGS: features,
        }

    def compute_values(self, batch: Any, embeddings: Any = None) -> Any:
        return self.value(embeddings).squeeze(-1)


GIVEN: dict[str, dict[str, Any]] = {
    "old": {"model": {"custom_model": OldLSTM, "custom_model_config": {"cells": 12}, "max_seq_len": 6}},
    "new": {"rl_module_spec": RLModuleSpec(NewGRU, model_config={"cells": 12}), "model": {"max_seq_len": 6}},
}


def settings(kind: str, name: str = "PPO", **more: Any) -> Any:
    """Return a small algorithm on an environment that asks for the number before."""
    more = {"minibatch_size": 40, "num_epochs": 2, **more} if name == "PPO" else more
    return algorithm_class(name)({
        "env": Numbers, "env_config": {"repeat_delay": 1, "episode_len": 10}, "seed": 0, "num_env_runners": 0,
        "num_envs": 4, "num_cpus_per_env_runner": 0, "train_batch_size": 80, "rollout_fragment_length": 20,
        "min_time_s_per_iteration": 0, **GIVEN[kind], **more,
    })  # fmt: skip


class Numbers(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Shows numbers as a Box, which both kinds of modules take as it is."""

    def __init__(self, config: Any) -> None:
        super().__init__(RepeatAfterMe(config))
        self.observation_space = Box(0, 1, (2,), np.float32)

    def reset(self, **more: Any) -> Any:
        observation, info = self.env.reset(**more)
        return np.eye(2, dtype=np.float32)[observation], info

    def step(self, action: Any) -> Any:
        observation, *rest = self.env.step(action)
        return (np.eye(2, dtype=np.float32)[observation], *rest)


@pytest.mark.parametrize("kind", GIVEN)
def test_sequences_give_what_single_steps_gave(kind: str) -> None:
    given = GIVEN[kind].get("rl_module_spec")
    chosen, arguments = (given.module_class, given.model_config) if given else (OldLSTM, {"cells": 12})
    custom = CustomModel(chosen, Box(0, 1, (2,)), Discrete(2), (2,), 2, arguments=arguments)
    module = custom.policy_module()
    parameters = module.table.views(module.initial(np.random.default_rng(0)))
    generator = np.random.default_rng(1)
    obs = generator.random((9, 8, 2), np.float32)
    resets = generator.random((9, 8)) < 0.2
    first = {name: np.repeat(value[None], 8, axis=0) for name, value in module.initial_state().items()}
    before = {name: generator.random(value.shape, np.float32) for name, value in first.items()}
    state, expected = dict(before), []
    for t in range(9):
        state = {name: np.where(resets[t][:, None], first[name], value) for name, value in state.items()}
        outputs = module.train(NumpyOps(), parameters, {columns.OBS: obs[t], columns.STATE_IN: state})
        expected.append(np.column_stack([outputs[columns.ACTION_DIST_INPUTS], outputs[columns.VF_PREDS]]))
        state = outputs[columns.STATE_OUT]
    inputs = {columns.OBS: obs, columns.STATE_IN: before, columns.RESETS: resets}
    tensors = {name: torch.tensor(value) for name, value in parameters.items()}
    for ops, values in ((NumpyOps(), parameters), (TorchOps(), tensors)):
        found = module.train(ops, values, inputs)
        rows = np.column_stack([ops.to_numpy(found[name]) for name in (columns.ACTION_DIST_INPUTS, columns.VF_PREDS)])
        np.testing.assert_allclose(rows, np.concatenate(expected), atol=1e-5)
    exploring = module.explore(NumpyOps(), parameters, {columns.OBS: obs[0], columns.STATE_IN: first})
    assert set(exploring) == {columns.ACTION_DIST_INPUTS, columns.STATE_OUT}


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("kind", GIVEN)
def test_two_runners_give_the_bits_of_none_and_so_does_a_checkpoint(kind: str, tmp_path: Path) -> None:
    alone, two, resumed = (settings(kind, num_env_runners=runners) for runners in (0, 2, 0))
    for algorithm in (alone, two):
        result = algorithm.train()
    resumed.restore(alone.save(str(tmp_path)))
    for algorithm in (alone, two, resumed):
        algorithm.train()
    assert alone.learner.weights.tobytes() == two.learner.weights.tobytes() == resumed.learner.weights.tobytes()
    assert alone.evaluate()["evaluation"]["episode_len_mean"] == 10
    two.stop()
    if kind == "old":
        assert result["learners"]["default_policy"]["model/rows_are_equal"] == 1
    state = alone.get_policy().get_initial_state()
    assert [each[0] for each in state] == {"old": [0.5, 0], "new": [-0.25]}[kind]
    _, after, _ = alone.compute_single_action(np.zeros(2, np.float32), state)
    assert [each.shape for each in after] == [each.shape for each in state] and (after[0] != state[0]).any()


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize("name", ["PG", "A2C"])
def test_other_algorithms_learn_too(name: str, kind: str) -> None:
    algorithm = settings(kind, name)
    before = algorithm.learner.weights.copy()
    algorithm.train()
    assert (algorithm.learner.weights != before).mean() > 0.9


@pytest.mark.parametrize("kind", GIVEN)
def test_they_learn_what_needs_a_memory(kind: str) -> None:
    algorithm = settings(
        kind, num_envs=8, train_batch_size=320, minibatch_size=80, num_epochs=8, lr=1e-2, gamma=0.3, grad_clip=0.5,
        use_kl_loss=False, metrics_num_episodes_for_smoothing=20,
    )  # fmt: skip
    for _ in range(6):
        result = algorithm.train()
    assert result["episode_reward_mean"] > 6  # of 9; without a memory it stays about 0


class LooksBack(OldLSTM):
    """Remembers the last action and reward beside what it sees, and notes them."""

    seen: list[Any] = []  # noqa: RUF012

    def forward(self, input_dict: Any, state: Any, seq_lens: Any) -> Any:
        before = {name: input_dict[name].numpy().copy() for name in ("prev_actions", "prev_rewards")}
        self.seen.append((input_dict["obs"].numpy().copy(), before, seq_lens.numpy().copy()))
        return super().forward(input_dict, state, seq_lens)


def test_a_model_is_given_the_last_action_and_reward() -> None:
    model = {"custom_model": LooksBack, "lstm_use_prev_action": True, "lstm_use_prev_reward": True, "max_seq_len": 20}
    algorithm = settings("old", model=model)
    LooksBack.seen.clear()
    fragment = algorithm.sample()
    actions, rewards, resets = (fragment.columns[name] for name in ("actions", "rewards", "resets"))
    assert algorithm.learner.module.network.network.obs_space.shape == (2,)
    for t, (obs, before, lengths) in enumerate(LooksBack.seen):
        np.testing.assert_array_equal(obs[:4], fragment.columns["obs"][t, :, :2])
        for name, column in (("prev_actions", actions), ("prev_rewards", rewards)):
            np.testing.assert_array_equal(before[name][:4], np.where(resets[t], 0, column[t - 1]))
        assert lengths.tolist() == [1] * 8
    algorithm.train()
    obs, before, lengths = LooksBack.seen[-1]
    assert lengths.tolist() == [10] * len(lengths) and before["prev_actions"].shape == (len(obs),)


class OlderLSTM(RecurrentTorchModel):
    """A model that its base makes a torch.nn.Module."""

    def __init__(self, obs_space: Any, *told: Any) -> None:
        super().__init__(obs_space, *told)
        self.lstm, self.value = nn.LSTM(obs_space.shape[0], self.num_outputs, batch_first=True), nn.Linear(2, 1)

    def get_initial_state(self) -> Any:
        return [np.zeros(self.num_outputs)] * 2

    def forward_rnn(self, inputs: Any, state: Any, seq_lens: Any) -> Any:
        self.features, after = self.lstm(inputs, (state[0][None], state[1][None]))
        return self.features, [each[0] for each in after]

    def value_function(self) -> Any:
        return self.value(self.features).reshape(-1)


class AllAtOnce(NewGRU):
    """A module that returns values with outputs, all of them as rows."""

    def _forward_train(self, batch: Any, **more: Any) -> dict[str, Any]:
        found = self._forward(batch)
        found[Columns.VF_PREDS] = self.value(found[Columns.EMBEDDINGS]).flatten()
        return {**found, Columns.ACTION_DIST_INPUTS: found[Columns.ACTION_DIST_INPUTS].flatten(0, 1)}

    def compute_values(self, batch: Any, embeddings: Any = None) -> Any:
        raise AssertionError("values were returned with outputs")


@pytest.mark.parametrize(
    "given",
    [{"model": {"custom_model": OlderLSTM}}, {"rl_module_spec": RLModuleSpec(AllAtOnce, model_config={"cells": 4})}],
)
def test_other_spellings_learn_too(given: dict[str, Any]) -> None:
    algorithm = settings("old", **{"model": {}, **given})
    before = algorithm.learner.weights.copy()
    algorithm.train()
    assert (algorithm.learner.weights != before).mean() > 0.9


class Broken(OldLSTM):
    """Forgets to return a part of its state."""

    def forward_rnn(self, inputs: Any, state: Any, seq_lens: Any) -> Any:
        outputs, after = super().forward_rnn(inputs, state, seq_lens)
        return outputs, after[:1]


class Wide(OldLSTM):
    """Returns its state in another shape."""

    def forward_rnn(self, inputs: Any, state: Any, seq_lens: Any) -> Any:
        outputs, after = super().forward_rnn(inputs, state, seq_lens)
        return outputs, [after[0][None], after[1]]


class Text(OldLSTM):
    """Remembers what is no number."""

    def get_initial_state(self) -> Any:
        return ["nothing"]


class Odd(OldLSTM):
    """Has a state of no known form."""

    def get_initial_state(self) -> Any:
        return 3


class Unwritten(RecurrentNetwork, nn.Module):
    """Has no forward_rnn."""

    def __init__(self, *arguments: Any) -> None:
        nn.Module.__init__(self)
        TorchModelV2.__init__(self, *arguments)
        self.layer = nn.Linear(1, 1)

    def get_initial_state(self) -> Any:
        return [np.zeros(1)]


class Dotted(NewGRU):
    """Names its state by a text with a dot."""

    def get_initial_state(self) -> Any:
        return {"gru.hidden": np.zeros(4)}


class Silent(NewGRU):
    """Does not return its state."""

    def _forward(self, batch: Any, **more: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: super()._forward(batch)[Columns.ACTION_DIST_INPUTS]}


@pytest.mark.parametrize(
    ("model", "error", "said"),
    [
        (Broken, ModuleError, r"Broken.forward\(\) returned a state of 1 tensors, and get_initial_state\(\) has 2"),
        (Wide, ModuleError, r"Wide returned the state '0' of shape \[1, 8, 8\] .* and \[8, 8\] was expected"),
        (Text, ModuleError, r"Text.get_initial_state\(\) has 'nothing' in it: only arrays and tensors of numbers can"),
        (Odd, ModuleError, r"Odd.get_initial_state\(\) returned 3, and a list of arrays or a dict of them was expec"),
        (Unwritten, NotImplementedError, r"Unwritten has no forward_rnn\(inputs, state, seq_lens\): define it"),
        (RLModuleSpec(Dotted, model_config={"cells": 4}), ModuleError,
         r"a state is named 'gru.hidden': names of states are texts without '\.'; rename it"),
        (RLModuleSpec(Silent, model_config={"cells": 4}), ModuleError,
         r"Silent._forward_exploration\(\) returned 'state_out' with nothing, and get_initial_state\(\) has gru.h"),
    ],
)  # fmt: skip
def test_wrong_models_are_told_what_is_wrong(model: Any, error: Any, said: str) -> None:
    given = {"rl_module_spec": model} if isinstance(model, RLModuleSpec) else {"model": {"custom_model": model}}
    with pytest.raises(error, match=said):
        settings("old", **{"model": {}, **given}).train()


@pytest.mark.parametrize(
    ("config", "model", "said"),
    [
        (DQNConfig, {"custom_model": OldLSTM}, "OldLSTM has an initial state, and this algorithm replays single steps"),
        (PPOConfig, {"custom_model": OldLSTM, "use_lstm": True}, "use_lstm=True has no effect on a model of your own"),
        (PPOConfig, {"custom_model": OldLSTM, "use_attention": True}, "use_attention=True has no effect on a model of"),
    ],
)
def test_what_has_no_effect_is_refused(config: Any, model: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config().environment("CartPole-v1").env_runners(num_env_runners=0).training(model=model).build()
