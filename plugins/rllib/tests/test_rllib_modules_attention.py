"""Attention: what steps see, the formula of the paper, and that it learns what needs a memory, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.arrays import Array
from kernel_rllib.checkpoints.modules import SavedModule
from kernel_rllib.data import columns
from kernel_rllib.envs.games.repeat_after_me import RepeatAfterMe
from kernel_rllib.errors import ConfigError, SpaceError
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.modules.attention import AttentionOptions, encoded_distances, moved_right, visible
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.products import ROW_BLOCK
from kernel_rllib.training.registry import algorithm_class

ATTENTION = {
    "fcnet_hiddens": [32], "max_seq_len": 12, "use_attention": True, "attention_dim": 16, "attention_head_dim": 8,
    "attention_num_heads": 2, "attention_position_wise_mlp_dim": 16,
    "attention_memory_inference": 6, "attention_memory_training": 6,
}  # fmt: skip


def actor_critic(**options: Any) -> ActorCritic:
    """Return a module whose policy differs from step to step, as it begins with a larger head."""
    attention = AttentionOptions(**{"units": 2, "width": 12, "heads": 3, "head_width": 4, "dense": 8, **options})
    return ActorCritic(4, 2, options=ActorCriticOptions(hidden=(8,), attention=attention))


def parameters_of(module: ActorCritic, dtype: Any = np.float32) -> tuple[NumpyOps, dict[str, Array]]:
    """Return operations, and parameters of which none is 0."""
    vector = module.initial(np.random.default_rng(0))
    vector += np.random.default_rng(1).normal(0, 0.1, vector.shape).astype(np.float32)
    return NumpyOps(row_block=ROW_BLOCK), dict(module.table.views(vector))


def zeros_of(module: ActorCritic, lanes: int) -> dict[str, Array]:
    return {name: np.zeros((lanes, *shape), np.float32) for name, shape in module.state().items()}


def test_a_step_attends_to_the_steps_before_it_in_its_episode() -> None:
    resets = np.zeros((5, 2), bool)
    resets[3, 1] = True
    found = visible(2, 5, np.array([1, 2]), resets)[:, 0].astype(int).tolist()
    assert found[0] == [
        [0, 1, 1, 0, 0, 0, 0],  # one step is remembered
        [0, 1, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 1, 0, 0],
        [0, 0, 0, 1, 1, 1, 0],
        [0, 0, 0, 0, 1, 1, 1],
    ]
    assert found[1][0] == [1, 1, 1, 0, 0, 0, 0]
    assert found[1][3:] == [[0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1, 1]]  # an episode began
    np.testing.assert_array_equal(visible(3, 1, np.array([2]))[0, 0], [[False, True, True, True]])


def test_rows_are_moved_right_each_by_one_more() -> None:
    scores = np.arange(1, 7, dtype=np.float32).reshape(1, 2, 3)
    np.testing.assert_array_equal(moved_right(NumpyOps(), scores)[0], [[1, 2, 3, 0], [0, 4, 5, 6]])


@pytest.mark.parametrize(("memory", "memory_learning"), [(5, 5), (3, 5), (0, 0)])
def test_sequences_give_what_single_steps_gave(memory: int, memory_learning: int) -> None:
    module = actor_critic(memory=memory, memory_learning=memory)
    nn, parameters = parameters_of(module)
    generator = np.random.default_rng(2)
    obs = generator.standard_normal((17, 8, 4)).astype(np.float32)
    resets = generator.random((17, 8)) < 0.15
    state, steps = zeros_of(module, 8), []
    middle: dict[str, Array] = {}
    for t in range(17):
        state = {name: np.where(resets[t].reshape(-1, *[1] * (v.ndim - 1)), 0, v) for name, v in state.items()}
        middle = state if t == 7 else middle
        outputs = module.train(nn, parameters, {columns.OBS: obs[t], columns.STATE_IN: state})
        steps.append([outputs[columns.ACTION_DIST_INPUTS], outputs[columns.VF_PREDS][:, None]])
        state = outputs[columns.STATE_OUT]
    whole = module.train(nn, parameters, {columns.OBS: obs[7:], columns.STATE_IN: middle, columns.RESETS: resets[7:]})
    for index, name in enumerate((columns.ACTION_DIST_INPUTS, columns.VF_PREDS)):
        expected = np.concatenate([step[index] for step in steps[7:]])
        np.testing.assert_allclose(whole[name].reshape(expected.shape), expected, atol=1e-5)
    after = whole[columns.STATE_OUT]
    np.testing.assert_array_equal(after["memory_steps"], state["memory_steps"])
    for lane, count in enumerate(state["memory_steps"][:, 0].astype(int)):
        kept = slice(memory - count, None)
        np.testing.assert_allclose(after["memory_1"][lane, kept], state["memory_1"][lane, kept], atol=1e-5)


def test_learning_can_see_fewer_steps_than_acting() -> None:
    long, short = actor_critic(units=1, memory=6, memory_learning=2), actor_critic(units=1, memory=2, memory_learning=2)
    nn, parameters = parameters_of(long)
    obs = np.random.default_rng(2).standard_normal((9, 8, 4)).astype(np.float32)
    state = {name: np.ones((8, *shape), np.float32) * 6 for name, shape in long.state().items()}
    inputs = {columns.OBS: obs, columns.RESETS: np.zeros((9, 8), bool)}
    found = long.train(nn, parameters, {**inputs, columns.STATE_IN: state})
    cut = {name: value[:, -2:] if name == "memory_0" else value for name, value in state.items()}
    expected = short.train(nn, parameters, {**inputs, columns.STATE_IN: cut})
    np.testing.assert_allclose(found[columns.VF_PREDS], expected[columns.VF_PREDS], atol=1e-6)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def normal(x: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def gated(p: dict[str, Array], name: str, x: Array, y: Array) -> Array:
    """The gate of section 3.2, for one row."""
    w_r, w_z, w_h = np.split(p[f"{name}/weight_layer"], 3, axis=1)
    u_r, u_z = np.split(p[f"{name}/weight_skipped"], 2, axis=1)
    r, z = sigmoid(y @ w_r + x @ u_r), sigmoid(y @ w_z + x @ u_z - p[f"{name}/bias"])
    return (1 - z) * x + z * np.tanh(y @ w_h + (r * x) @ p[f"{name}/weight_reset"])


def test_a_step_is_what_the_paper_says() -> None:
    module = actor_critic(units=1, heads=3, head_width=4, memory=5, memory_learning=5)
    nn, single = parameters_of(module)
    p = {name.removeprefix("memory/0/"): value.astype(np.float64) for name, value in single.items()}
    generator = np.random.default_rng(4)
    obs, before = generator.standard_normal((8, 4)), generator.standard_normal((8, 5, 12))
    state = {"memory_0": before.astype(np.float32), "memory_steps": np.full((8, 1), 3, np.float32)}
    found = module.train(nn, single, {columns.OBS: obs.astype(np.float32), columns.STATE_IN: state})
    features = np.tanh(obs[0] @ p["shared/0/weight"] + p["shared/0/bias"])
    x = features @ p["memory/embedding/weight"] + p["memory/embedding/bias"]
    seen = np.concatenate([before[0, 2:], x[None]])  # three steps, and this one
    rows = normal(seen) * p["attention_norm/scale"] + p["attention_norm/bias"]
    heads = []
    for head in range(3):
        part = slice(4 * head, 4 * head + 4)
        query = rows[-1] @ p["query"][:, part]
        key, value = rows @ p["key"][:, part], rows @ p["value"][:, part]
        distance = encoded_distances(3, 12) @ p["distance"][:, part]
        scores = key @ (query + p["content_bias"][part]) + distance @ (query + p["distance_bias"][part])
        shares = np.exp(scores / 2)  # the root of the width of a head
        heads.append(shares @ value / shares.sum())
    x = gated(p, "attention_gate", x, np.maximum(np.concatenate(heads) @ p["output"], 0))
    y = normal(x) * p["dense_norm/scale"] + p["dense_norm/bias"]
    for layer in ("dense_0", "dense_1"):
        y = np.maximum(y @ p[f"{layer}/weight"] + p[f"{layer}/bias"], 0)
    x = gated(p, "dense_gate", x, y)
    logits = x @ p["policy/head/weight"] + p["policy/head/bias"]
    np.testing.assert_allclose(found[columns.ACTION_DIST_INPUTS][0], logits, rtol=1e-4, atol=1e-5)


def test_a_lane_gives_the_same_bits_in_any_company() -> None:
    module = actor_critic(memory=5)
    nn, parameters = parameters_of(module)
    generator = np.random.default_rng(5)
    obs = generator.standard_normal((24, 4)).astype(np.float32)
    state = {name: generator.random((24, *shape), np.float32) * 5 for name, shape in module.state().items()}

    def outputs(lanes: slice) -> Any:
        remembered = {name: value[lanes] for name, value in state.items()}
        return module.explore(nn, parameters, {columns.OBS: obs[lanes], columns.STATE_IN: remembered})

    together, few = outputs(slice(None)), outputs(slice(8, 16))
    assert together[columns.ACTION_DIST_INPUTS][8:16].tobytes() == few[columns.ACTION_DIST_INPUTS].tobytes()
    for name, value in together[columns.STATE_OUT].items():
        assert value[8:16].tobytes() == few[columns.STATE_OUT][name].tobytes()


def settings(name: str = "PPO", *, model: Any = None, **more: Any) -> Any:
    """Return a small algorithm on an environment that asks for the number of two steps before."""
    return algorithm_class(name)({
        "env": RepeatAfterMe, "env_config": {"repeat_delay": 2, "episode_len": 15}, "seed": 0, "num_env_runners": 0,
        "num_envs": 4, "num_cpus_per_env_runner": 0, "train_batch_size": 80, "rollout_fragment_length": 20,
        "min_time_s_per_iteration": 0, "model": ATTENTION if model is None else model, **more,
    })  # fmt: skip


PPO_SMALL = {"minibatch_size": 40, "num_epochs": 2}


@pytest.mark.usefixtures("session")
def test_any_number_of_runners_ends_with_the_same_bits_and_so_does_a_checkpoint(tmp_path: Path) -> None:
    more = {**PPO_SMALL, "model": {**ATTENTION, "attention_use_n_prev_actions": 2, "attention_use_n_prev_rewards": 1}}
    alone, two, resumed = (settings(num_env_runners=runners, **more) for runners in (0, 2, 0))
    for algorithm in (alone, two):
        algorithm.train()
    path = alone.save(str(tmp_path))
    resumed.restore(path)
    for algorithm in (alone, two, resumed):
        algorithm.train()
    assert alone.learner.module.body.inputs == 2 + 2 * 2 + 1
    assert alone.learner.weights.tobytes() == two.learner.weights.tobytes() == resumed.learner.weights.tobytes()
    assert alone.evaluate()["evaluation"]["episode_len_mean"] == 15
    with pytest.raises(SpaceError, match="are of one step, and this policy looks at the last 2; use evaluate"):
        alone.compute_single_action(1, prev_action=0, prev_reward=1.0)
    two.stop()
    module = SavedModule.from_checkpoint(path, "default_policy")
    assert isinstance(module, SavedModule)
    first = module.forward_inference({"obs": np.ones((1, 7))})
    states: Any = ({}, first["state_out"])
    then = [module.forward_inference({"obs": np.zeros((1, 7)), "state_in": state}) for state in states]
    assert (then[0]["action_dist_inputs"] != then[1]["action_dist_inputs"]).any()


@pytest.mark.parametrize("name", ["PG", "A2C", "A3C"])
def test_other_algorithms_learn_with_it_too(name: str) -> None:
    algorithm = settings(name, **({"sample_async": False, "train_batch_size": 32} if name == "A3C" else {}))
    before = algorithm.learner.weights.copy()
    algorithm.train()
    assert algorithm.learner.backend.name == "numpy" and (algorithm.learner.weights != before).mean() > 0.9


def test_a_state_goes_in_and_comes_out() -> None:
    algorithm = settings(**PPO_SMALL)
    state = algorithm.get_policy().get_initial_state()
    assert [each.shape for each in state] == [(6, 16), (1,)]
    counts = []
    for _ in range(8):
        _, state, _ = algorithm.compute_single_action(1, state, explore=False)
        counts.append(float(state[1][0]))
    assert counts == [1, 2, 3, 4, 5, 6, 6, 6] and np.abs(state[0]).min(axis=1).all()
    with pytest.raises(SpaceError, match=r"state has 1 arrays, but the policy remembers 2: give what get_policy\(\)"):
        algorithm.compute_single_action(1, state[:1])


def test_it_learns_what_needs_a_memory() -> None:
    learning = {
        "train_batch_size": 320, "minibatch_size": 80, "num_epochs": 8, "lr": 3e-3, "gamma": 0.3, "grad_clip": 0.5,
        "use_kl_loss": False, "metrics_num_episodes_for_smoothing": 20,
    }  # fmt: skip
    returns = []
    for model in (ATTENTION, {"fcnet_hiddens": [32]}):
        algorithm = settings(model=model, env_config={"repeat_delay": 1, "episode_len": 10}, num_envs=8, **learning)
        for _ in range(5):
            result = algorithm.train()
        returns.append(result["episode_reward_mean"])
    assert returns[0] > 6 > 2 > returns[1]


@pytest.mark.parametrize(
    ("config", "model", "said"),
    [
        (PPOConfig, {"use_attention": True, "use_lstm": True}, "use_lstm=True and use_attention=True both give the"),
        (PPOConfig, {"attention_dim": 32}, r"model\['attention_dim'\] without use_attention"),
        (PPOConfig, {"use_attention": True, "lstm_use_prev_action": True}, r"\['lstm_use_prev_action'\] without use_l"),
        (DQNConfig, {"use_attention": True}, "DQNConfig: model use_attention=True needs sequences, and this replays"),
        (DQNConfig, {"use_lstm": True}, "DQNConfig: model use_lstm=True needs sequences, and this replays"),
    ],
)
def test_what_has_no_effect_is_refused(config: Any, model: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config().environment("CartPole-v1").env_runners(num_env_runners=0).training(model=model).build()
