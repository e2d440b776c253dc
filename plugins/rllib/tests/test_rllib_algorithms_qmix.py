"""QMIX, VDN and independent agents of a group: losses and targets are the papers', bits are the same anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.qmix import QMIX, QMIXConfig, group_loss
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.envs.games.two_step_game import TwoStepGame, grouped_two_step_game
from kernel_rllib.envs.multi_agent import ALL, MultiAgentEnv
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.epsilon_greedy import EpsilonGreedy, PerWorkerEpsilonGreedy
from kernel_rllib.exploration.groups import OfEachAgent
from kernel_rllib.modules.group_q_network import MIXER, GroupLayout, GroupQNetwork, GroupQOptions
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.testing.losses import loss_and_gradient
from kernel_rllib.testing.reference import value_factorisation as reference
from kernel_rllib.testing.reference.numerical_gradients import numerical_gradient
from kernel_rllib.testing.training import weights_after

MIXERS = pytest.mark.parametrize("mixer", ["qmix", "vdn", None])
MEMORIES = pytest.mark.parametrize("cells", [0, 3])


class Masked(MultiAgentEnv):
    """Three agents that may take the actions that a mask allows, which change; who takes another one is told off."""

    possible_agents = agents = ["a", "b", "c"]
    action_space = spaces.Discrete(4)
    observation_space = spaces.Dict(
        obs=spaces.Box(-1.0, 1.0, (2,), np.float32), action_mask=spaces.Box(0.0, 1.0, (4,), np.float32)
    )

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        self._generator = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        self._time = 0
        return self._seen(), {}

    def step(self, actions: Mapping[Any, int]) -> Any:
        for agent, action in actions.items():
            assert self._masks[agent][action], "an action was taken that the mask does not allow"
        self._time += 1
        over = self._time == 5
        rewards = {agent: float(action) for agent, action in actions.items()}
        return self._seen(), rewards, {ALL: False}, {ALL: over}, {}

    def _seen(self) -> dict[Any, Any]:
        random = self._generator
        self._masks = {agent: random.permutation([1, 1, 0, 0]).astype(np.float32) for agent in self.agents}
        seen = {agent: random.uniform(-1, 1, 2).astype(np.float32) for agent in self.agents}
        return {agent: {"obs": seen[agent], "action_mask": self._masks[agent]} for agent in self.agents}


def grouped_masked(env_config: Any = None) -> MultiAgentEnv:
    """Return the environment with all agents in one group."""
    return Masked(env_config).with_agent_groups({"team": ["a", "b", "c"]})


def config(env: Any = grouped_two_step_game, **settings: Any) -> QMIXConfig:
    """Return small settings, with four copies of an environment in all."""
    of_runners = {name: settings.pop(name) for name in ("num_env_runners", "num_envs") if name in settings}
    return (
        QMIXConfig()
        .environment(env, disable_env_checking=True)  # its actions are drawn without masks
        .env_runners(**{"num_envs": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, **of_runners})
        .training(
            **{
                "train_batch_size": 16,
                "num_steps_sampled_before_learning_starts": 32,
                "target_network_update_freq": 40,
                "model": {"lstm_cell_size": 8},
                "mixing_embed_dim": 4,
                "store_buffer_in_checkpoints": True,
                **settings,
            }
        )
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=100)
        .debugging(seed=3)
    )


LAYOUT = GroupLayout(agents=3, width=6, obs=(2, 4), action_mask=(0, 2), state=(4, 6))


def network(mixer: Any, cells: int) -> GroupQNetwork:
    """Return a small network of three agents with two actions."""
    return GroupQNetwork(LAYOUT, 2, GroupQOptions((4,), "tanh", cells, mixer, 3))


def some_batch(module: GroupQNetwork, random: np.random.Generator) -> Batch:
    """Return three steps of four groups, some of which only fill up."""
    steps, count = 3, 4
    state = {name: random.normal(size=(count, *shape)) for name, shape in module.state().items()}
    groups = 1 if module.options.mixer else 3
    batch = Batch(
        actions=random.integers(0, 2, (steps * count, 3)),
        value_targets=random.normal(size=(steps * count, groups)),
        loss_mask=(np.arange(steps * count) % 4 != 2).astype(float),
    )
    dict.__setitem__(batch, columns.OBS, random.normal(size=(steps, count, 18)))
    dict.__setitem__(batch, columns.RESETS, np.arange(steps * count).reshape(steps, count) == 5)
    dict.__setitem__(batch, columns.STATE_IN, state)
    return batch


@MIXERS
@MEMORIES
def test_the_loss_and_its_gradient_are_those_of_the_formulas(mixer: Any, cells: int) -> None:
    random = np.random.default_rng(1)
    module = network(mixer, cells)
    batch = some_batch(module, random)
    vector = random.normal(size=module.table.size)

    def expected(parameters: Any) -> float:
        views = module.table.views(parameters)
        values = NumpyBackend().evaluate(
            lambda nn, given: module.train(nn, given, batch)[columns.Q_VALUES], parameters, module.table
        )
        chosen = np.take_along_axis(values, batch["actions"][:, :, None], 2)[:, :, 0]
        states = batch[columns.OBS].reshape(-1, 3, 6)[:, 0, 4:]
        totals = chosen
        if mixer == "vdn":
            totals = reference.sum_of_values(chosen)[:, None]
        elif mixer == "qmix":
            prefix = f"{MIXER}/"
            weights = {name.removeprefix(prefix): view for name, view in views.items() if name.startswith(prefix)}
            totals = reference.monotonic_values(chosen, states, weights, 3)[:, None]
        return reference.group_loss(totals, batch["value_targets"], batch["loss_mask"])

    metrics, gradient = loss_and_gradient(group_loss, module, vector, batch)
    assert metrics["total_loss"] == pytest.approx(expected(vector), rel=1e-10)
    np.testing.assert_allclose(gradient, numerical_gradient(expected, vector, 1e-5), rtol=1e-5, atol=1e-7)


@MEMORIES
def test_steps_one_by_one_give_what_sequences_give(cells: int) -> None:
    random = np.random.default_rng(2)
    module = network("qmix", cells)
    batch = some_batch(module, random)
    views = module.table.views(random.normal(size=module.table.size))
    whole = module.train(NumpyOps(), views, batch)[columns.Q_VALUES].reshape(3, 4, 3, 2)
    state = batch.get(columns.STATE_IN, {})
    for step in range(3):
        resets = batch[columns.RESETS][step]
        state = {name: np.where(resets[:, None, None], 0.0, each) for name, each in state.items()}
        found = module.train(NumpyOps(), views, {columns.OBS: batch[columns.OBS][step], columns.STATE_IN: state})
        np.testing.assert_allclose(found[columns.Q_VALUES], whole[step], rtol=1e-4, atol=1e-6)
        state = found.get(columns.STATE_OUT, {})
    assert {name: each.shape[1:] for name, each in state.items()} == module.state()


def test_the_value_of_a_group_rises_with_that_of_each_agent() -> None:
    random = np.random.default_rng(3)
    module = network("qmix", 0)
    obs = random.normal(size=(50, 18))
    views = module.table.views(random.normal(size=module.table.size))

    def total(values: Any) -> Any:
        return module.group_values(NumpyOps(), views, values, obs)[:, 0]

    values = random.normal(size=(50, 3))
    for agent in range(3):
        assert (total(values + np.eye(3)[agent]) >= total(values)).all()


@MIXERS
@pytest.mark.parametrize("double", [False, True])
def test_targets_are_those_of_the_formula(mixer: Any, double: bool) -> None:
    algorithm = QMIX(config(grouped_masked, mixer=mixer, double_q=double, gamma=0.9))
    algorithm.train()
    random = np.random.default_rng(5)
    algorithm.target.vector[...] += 0.5 * random.normal(size=algorithm.target.vector.shape)
    episodes = algorithm.replay.sample(40, np.random.default_rng(0))
    module = algorithm.learner.module
    tables = algorithm.learner.vector, algorithm.target.vector
    online, target = (
        module.train(NumpyOps(), module.table.views(vector), episodes.inputs())[columns.Q_VALUES].reshape(6, -1, 3, 4)[
            1:
        ]
        for vector in tables
    )
    rows = episodes.obs[1:]
    mask = slice(2, 6) if next(iter(Masked.observation_space.spaces)) == "obs" else slice(0, 4)
    allowed = rows.reshape(*rows.shape[:2], 3, 6)[..., mask].reshape(-1, 3, 4)
    assert (allowed.sum(-1) == 2).all()
    assert (online.argmax(-1) != target.argmax(-1)).any(), "the two choose alike, so that this would say nothing"
    chooser = online.reshape(-1, 3, 4) if double else None
    best = reference.best_joint_values(target.reshape(-1, 3, 4), allowed, chooser)
    totals = module.group_values(NumpyOps(), module.table.views(tables[1]), best.astype(np.float32), rows)
    over = np.zeros(len(best), bool)  # the episodes of this environment are cut
    assert not episodes.columns["terminateds"].any()
    expected = reference.group_targets(episodes.columns["rewards"].ravel(), over, totals, 0.9)
    np.testing.assert_allclose(algorithm.targets_of(episodes), expected, rtol=1e-5)


def test_after_the_last_step_of_a_game_nothing_more_is_expected() -> None:
    algorithm = QMIX(config())
    algorithm.train()
    algorithm.target.vector[...] = 1.0
    episodes = algorithm.replay.sample(16, np.random.default_rng(0))
    targets = algorithm.targets_of(episodes).reshape(2, -1)
    np.testing.assert_array_equal(targets[1], episodes.columns["rewards"][1])
    assert (targets[0] != episodes.columns["rewards"][0]).all()


def test_agents_take_what_the_mask_allows_and_nothing_else() -> None:
    algorithm = QMIX(config(grouped_masked))
    algorithm.train()  # the environment asserts it
    observed = {"obs": np.zeros(2, np.float32), "action_mask": np.array([0, 0, 0, 1], np.float32)}
    for explore in (False, True):
        action = algorithm.compute_single_action((observed,) * 3, explore=explore)
        assert [int(each) for each in action] == [3, 3, 3]


def test_each_agent_explores_by_itself() -> None:
    values = {columns.Q_VALUES: np.tile([0.0, 1.0, -np.inf], (4_000, 2, 1))}
    exploration = OfEachAgent(EpsilonGreedy(0.5), 2)
    noise = np.random.default_rng(0).random((4_000, exploration.noise.width))
    chosen = exploration.choose(NumpyOps(), values, noise, 0)
    assert chosen.max() == 1
    both = np.bincount(chosen[:, 0] * 2 + chosen[:, 1], minlength=4) / 4_000
    np.testing.assert_allclose(both, [1 / 16, 3 / 16, 3 / 16, 9 / 16], atol=0.02)
    assert (exploration.best(NumpyOps(), values) == 1).all()
    assert exploration.info(0) == {"cur_epsilon": 0.5}
    assert exploration.of_runner(1, 2) is exploration
    of_one = OfEachAgent(PerWorkerEpsilonGreedy(0.5), 2).of_runner(2, 2)
    assert of_one.info(0)["cur_epsilon"] == pytest.approx(0.4**8)


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("recurrent", [False, True])
def test_any_number_of_runners_ends_with_the_same_bits(recurrent: bool) -> None:
    alone = weights_after(2, QMIX(config(recurrent=recurrent)))
    for runners in (1, 2):
        many = QMIX(config(recurrent=recurrent, num_env_runners=runners))
        assert weights_after(2, many) == alone
        many.stop()


@MIXERS
def test_it_goes_on_after_a_checkpoint_with_the_same_bits(mixer: Any, tmp_path: Path) -> None:
    straight, resumed = QMIX(config(mixer=mixer)), QMIX(config(mixer=mixer))
    straight.train()
    resumed.restore(straight.save(str(tmp_path / "checkpoint")))
    assert weights_after(2, resumed) == weights_after(2, straight)
    again = QMIX.from_checkpoint(straight.save(str(tmp_path / "again")))
    assert again.learner.weights.tobytes() == straight.learner.weights.tobytes()


def test_samples_may_be_cut_and_memories_go_on_with_them() -> None:
    settings = config(grouped_masked).env_runners(batch_mode="truncate_episodes", rollout_fragment_length=3)
    algorithm = QMIX(settings)
    algorithm.train()
    pieces = list(algorithm.replay._pieces)
    assert {piece.steps for piece in pieces} == {1, 2, 3}
    begun = [np.abs(piece.state_in["memory_hidden"]).max() > 0 for piece in pieces]
    assert any(begun) and not all(begun)


def test_an_update_is_made_for_each_round_or_as_often_as_it_is_said() -> None:
    for settings, trained in (({}, 1), ({"training_intensity": 4}, 4)):
        algorithm = QMIX(config(num_steps_sampled_before_learning_starts=0, **settings))
        algorithm.training_step()
        assert algorithm.env_steps_sampled == 4 * 4
        assert algorithm.env_steps_trained == 16 * trained


def test_the_target_networks_follow_when_it_is_time() -> None:
    algorithm = QMIX(config(target_network_update_freq=64))
    first = algorithm.target.vector.copy()
    for _ in range(3):
        algorithm.training_step()
        np.testing.assert_array_equal(algorithm.target.vector, first)
    algorithm.training_step()
    np.testing.assert_array_equal(algorithm.target.vector, algorithm.learner.vector)


def test_settings_of_networks_and_of_rmsprop_are_acted_on() -> None:
    made = QMIX(config(agent_hiddens=[5, 6], agent_hidden_activation="tanh", recurrent=False, mixing_embed_dim=7))
    shapes = made.learner.module.table.shapes()
    assert shapes["body/1/weight"] == (5, 6)
    assert shapes["head/weight"] == (6, 2)
    assert shapes["mixer/last_bias/weight"] == (7, 1)
    optimizer = QMIX(config(optim_alpha=0.5, optim_eps=0.25)).learner._objectives["q"].optimizer
    assert (optimizer._alpha, optimizer._epsilon) == (0.5, 0.25)


def with_two_kinds(env_config: Any) -> Any:
    env = TwoStepGame()
    env.observation_spaces = {agent: spaces.Discrete(6 + agent) for agent in env.agents}
    return env.with_agent_groups({"g": [0, 1]})


def with_short_masks(env_config: Any) -> Any:
    env = Masked()
    env.observation_space = spaces.Dict({**Masked.observation_space.spaces, "action_mask": spaces.MultiBinary(3)})
    return env.with_agent_groups({"team": ["a", "b", "c"]})


@pytest.mark.parametrize(
    ("env", "settings", "said"),
    [
        (TwoStepGame, {}, "learns for groups of agents, whose spaces are Tuples, but here observations are Discrete"),
        (lambda _: TwoStepGame({"actions_are_logits": True}).with_agent_groups({"g": [0, 1]}), {},
         r"learns a value for each action of a Discrete space, but agents take Box.*; take MADDPG or PPO"),
        (with_two_kinds, {}, "all agents of a group share one network, but member 1"),
        (with_short_masks, {}, "'action_mask' of observations has 3 flags, but agents have 4 actions"),
        (grouped_two_step_game, {"n_step": 3}, "n_step=3, but targets of groups are of one step"),
        (grouped_two_step_game, {"replay_buffer_config": {"type": "PrioritizedEpisodeReplayBuffer"}},
         "replay_buffer_config asks for more than its capacity"),
        (grouped_two_step_game, {"replay_buffer_config": {"replay_mode": "lockstep"}}, "are replayed together"),
        (grouped_two_step_game, {"model": {"use_lstm": True}}, "agents remember by a GRU, unless recurrent=False"),
        (grouped_two_step_game, {"model": {"fcnet_hiddens": [8]}}, "give the layers to agent_hiddens"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(env: Any, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        QMIX(config(env, **settings))


def test_filters_of_observations_are_refused() -> None:
    filtered = config().env_runners(observation_filter="MeanStdFilter")
    with pytest.raises(ConfigError, match="must be as the environment tells them.* leave out observation_filter"):
        QMIX(filtered)


def test_two_groups_learn_each_by_a_policy_of_its_own() -> None:
    def env(_: Any) -> Any:
        return Masked().with_agent_groups({"left": ["a", "b"], "right": ["c"]})

    settings = config(env).multi_agent(
        policies=["left", "right"], policy_mapping_fn=lambda agent, *_, **__: agent
    )  # fmt: skip
    algorithm = QMIX(settings)
    before = {name: learner.weights.copy() for name, learner in algorithm.learners.items()}
    result = algorithm.train()
    assert set(result["learners"]) == {"left", "right"}
    assert all(not np.array_equal(algorithm.learners[name].weights, before[name]) for name in before)


@pytest.mark.parametrize(("mixer", "expected"), [("qmix", 8.0), ("vdn", 7.0)])
def test_qmix_finds_the_best_joint_action_and_a_sum_takes_the_safe_one(mixer: Any, expected: float) -> None:
    """The experiment of section 5 of QMIX, with fewer steps: while training, all joint actions are tried alike."""
    settings = config(
        mixer=mixer, num_envs=8, num_steps_sampled_before_learning_starts=64, recurrent=False, train_batch_size=64,
        training_intensity=8, target_network_update_freq=256, mixing_embed_dim=16, lr=2e-3,
    )  # fmt: skip
    settings.env_runners(exploration_config={"type": "Random"}, rollout_fragment_length=4)
    settings.evaluation(evaluation_duration=2, evaluation_config={"explore": False})
    algorithm = QMIX(settings.reporting(min_sample_timesteps_per_iteration=4000))
    algorithm.train()
    assert algorithm.evaluate()["episode_reward_mean"] == expected
    algorithm.stop()
