"""Decision Transformer: its network is the paper's, it acts as it learned, and reaches what it is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from kernel_rllib.algorithms.dt import DTConfig, dt_loss
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import ConfigError, SpaceError
from kernel_rllib.modules.decision_transformer import DecisionTransformer, DecisionTransformerOptions, dropped
from kernel_rllib.nn.backends import backend
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.offline.json_writer import JsonWriter
from kernel_rllib.replay.segments import SegmentReplay
from kernel_rllib.testing.reference import decision_transformer as reference
from kernel_rllib.testing.training import weights_after
from kernel_rllib.training.registry import algorithm_class

STEPS = 6
SPACE = gymnasium.spaces.Box(0, 1, (2,), np.float32)


class Ladder(gymnasium.Env[Any, Any]):
    """Six steps, in each of which action 1 brings a reward of 1; which step it is is observed."""

    observation_space = SPACE

    def __init__(self, config: Any = None) -> None:
        self.continuous = bool((config or {}).get("continuous"))
        self.action_space: Any = gymnasium.spaces.Discrete(2)
        if self.continuous:
            self.action_space = gymnasium.spaces.Box(-2, 2, (1,), np.float32)
        self.step_number = 0

    def observed(self) -> Any:
        return np.array([self.step_number / STEPS, 1], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.step_number = 0
        return self.observed(), {}

    def step(self, action: Any) -> Any:
        self.step_number += 1
        reward = float(np.clip(action[0], 0, 1)) if self.continuous else float(action)
        return self.observed(), reward, self.step_number == STEPS, False, {}


def recorded(path: Path, *, continuous: bool = False, count: int = 120) -> str:
    """Write episodes of policies that take action 1 never, always, or in between; return their folder."""
    random, writer = np.random.default_rng(1), JsonWriter(str(path))
    for number in range(count):
        taken = random.random(STEPS) < (number % 7) / 6
        t = np.arange(STEPS)
        obs = np.stack([t / STEPS, np.ones(STEPS)], axis=1).astype(np.float32)
        ends = t == STEPS - 1
        actions = np.where(taken, 1.0, -1.0).astype(np.float32)[:, None] if continuous else taken.astype(np.int64)
        writer.write(
            Batch(
                obs=obs, new_obs=obs + np.float32([1 / STEPS, 0]), actions=actions, rewards=taken.astype(np.float32),
                terminateds=ends, truncateds=~ends & False, eps_id=np.full(STEPS, number),
            )
        )  # fmt: skip
    writer.close()
    return str(path)


SMALL: dict[str, Any] = {
    "env": Ladder, "seed": 1, "num_envs": 2, "num_env_runners": 0, "num_cpus_per_env_runner": 0, "lr": 3e-3,
    "train_batch_size": 256, "rollout_fragment_length": 12, "target_return": 6, "horizon": STEPS, "embed_dim": 16,
    "num_layers": 1, "model": {"max_seq_len": 4}, "min_train_timesteps_per_iteration": 2000,
}  # fmt: skip


def segments(random: Any, dtype: Any, count: int, steps: int, actions: int) -> Batch:
    mask = np.ones((count, steps), np.float32)
    mask[1, :2] = 0
    return Batch(
        obs=random.normal(size=(count, steps, 3)).astype(dtype), actions=random.integers(0, actions, (count, steps)),
        returns_to_go=(4 * random.normal(size=(count, steps))).astype(dtype),
        timesteps=np.maximum(np.arange(steps) - 2 * (mask[:, :1] == 0), 0) + np.zeros((count, 1), np.int64),
        loss_mask=mask,
    )  # fmt: skip


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-4), (np.float64, 1e-9)])
def test_the_network_and_its_loss_are_those_of_the_paper(dtype: Any, tolerance: float) -> None:
    random = np.random.default_rng(1)
    options = DecisionTransformerOptions(steps=4, horizon=9, width=8, layers=2, heads=2, return_scale=2.0)
    module, batch = DecisionTransformer(3, 5, options), segments(random, dtype, 3, 4, 5)
    numpy = backend("numpy")
    vector = numpy.vector((module.initial(random) + 0.3 * random.normal(size=module.table.size)).astype(dtype))
    loss = dt_loss(DTConfig().training(target_return=2), None)
    metrics, gradient = numpy.gradient(lambda nn, p: loss(nn, module, p, batch), vector, module.table)

    def expected(values: Any) -> float:
        weights = {name: np.asarray(view, np.float64) for name, view in module.table.views(values).items()}
        total, steps = 0.0, 0
        for row in range(3):
            there = batch["loss_mask"][row] > 0
            given = batch["obs"][row][there], np.eye(5)[batch["actions"][row][there]]
            to_go = batch["returns_to_go"][row][there] / 2.0
            predicted = reference.predicted_actions(
                weights, *given, to_go.tolist(), batch["timesteps"][row][there].tolist(), layers=2, heads=2
            )
            total += reference.segment_loss(predicted, batch["actions"][row][there].tolist()) * there.sum()
            steps += there.sum()
        return total / steps

    np.testing.assert_allclose(metrics["total_loss"], expected(vector), rtol=tolerance)
    if dtype == np.float64:
        for _ in range(3):
            along = random.normal(size=module.table.size)
            slope = (expected(vector + 1e-5 * along) - expected(vector - 1e-5 * along)) / 2e-5
            np.testing.assert_allclose(gradient @ along, slope, rtol=1e-5, atol=1e-7)


def test_losses_of_what_comes_next_and_of_continuous_actions() -> None:
    random = np.random.default_rng(2)
    options = DecisionTransformerOptions(
        steps=4, horizon=9, width=8, layers=1, is_discrete=False, is_bounded=True, predicts_observations=True,
        predicts_returns=True, return_scale=2.0,
    )  # fmt: skip
    module, batch = DecisionTransformer(3, 2, options), segments(random, np.float64, 2, 4, 2)
    batch["actions"] = random.uniform(-1, 1, (2, 4, 2))
    numpy = backend("numpy")
    vector = numpy.vector(module.initial(random) + 0.3 * random.normal(size=module.table.size))
    config = DTConfig().training(target_return=2, loss_coef_actions=0.5, loss_coef_obs=0.3, loss_coef_returns_to_go=0.2)
    loss = dt_loss(config, None)
    metrics, _ = numpy.gradient(lambda nn, p: loss(nn, module, p, batch), vector, module.table)
    outputs = numpy.evaluate(lambda nn, p: module.train(nn, p, batch), vector, module.table)
    mask = batch["loss_mask"] > 0
    both = mask[:, 1:] & mask[:, :-1]
    action = ((outputs["action_dist_inputs"] - batch["actions"]) ** 2)[mask].mean()
    obs = ((outputs["next_obs_predicted"][:, :-1] - batch["obs"][:, 1:]) ** 2)[both].mean()
    to_go = ((outputs["next_returns_predicted"][:, :-1] - batch["returns_to_go"][:, 1:] / 2) ** 2)[both].mean()
    found = [metrics["action_loss"], metrics["obs_loss"], metrics["returns_to_go_loss"]]
    np.testing.assert_allclose(found, [action, obs, to_go], rtol=1e-6)
    np.testing.assert_allclose(metrics["total_loss"], 0.5 * action + 0.3 * obs + 0.2 * to_go, rtol=1e-6)
    assert np.abs(outputs["action_dist_inputs"]).max() < 1


def test_it_acts_as_segments_say() -> None:
    """Step by step, with the state that it keeps, it predicts what it does for the same steps at once."""
    random = np.random.default_rng(3)
    options = DecisionTransformerOptions(steps=4, horizon=5, width=8, layers=2, target=3.0, return_scale=2.0)
    module = DecisionTransformer(3, 5, options)
    nn, vector = NumpyOps(), (module.initial(random) + 0.3 * random.normal(size=module.table.size)).astype(np.float32)
    parameters = module.table.views(vector)
    obs = random.normal(size=(2, 7, 3)).astype(np.float32)
    actions, rewards = random.integers(0, 5, (2, 7)), random.normal(size=(2, 7)).astype(np.float32)
    state: dict[str, Any] = {name: np.repeat(first[None], 2, axis=0) for name, first in module.initial_state().items()}
    to_go = 3.0 - np.concatenate([np.zeros((2, 1)), rewards.cumsum(axis=1)[:, :-1]], axis=1)
    for t in range(7):
        before = np.zeros((2, 6), np.float32) if not t else np.concatenate(
            [np.eye(5, dtype=np.float32)[actions[:, t - 1]], rewards[:, t - 1 : t]], axis=1
        )  # fmt: skip
        found = module.explore(nn, parameters, {"obs": np.concatenate([obs[:, t], before], axis=1), "state_in": state})
        state = found["state_out"]
        here = slice(max(0, t - 3), t + 1)
        batch = {
            "obs": obs[:, here], "actions": actions[:, here], "returns_to_go": to_go[:, here].astype(np.float32),
            "timesteps": np.minimum(np.arange(7)[here], 4)[None].repeat(2, axis=0),
            "loss_mask": np.ones((2, min(t + 1, 4)), np.float32),
        }  # fmt: skip
        expected = module.train(nn, parameters, batch)["action_dist_inputs"][:, -1]
        np.testing.assert_allclose(found["action_dist_inputs"], expected, rtol=1e-4, atol=1e-5)


def test_parts_are_left_out_while_learning_only() -> None:
    nn, x = NumpyOps(), np.ones((2, 3), np.float32)
    assert dropped(nn, x, 0.5, None) is x and dropped(nn, x, 0.0, lambda shape, share: x) is x
    np.testing.assert_array_equal(dropped(nn, x, 0.5, lambda shape, share: np.full(shape, share)), x / 2)
    found = {}
    for share in ("embed_pdrop", "resid_pdrop", "attn_pdrop", None):
        none = dict.fromkeys(("embed_pdrop", "resid_pdrop", "attn_pdrop"), 0.0)
        settings = {**SMALL, **none, "min_train_timesteps_per_iteration": 1} | ({share: 0.5} if share else {})
        algorithm = algorithm_class("DT")(settings)
        found[share] = algorithm.train()["info"]["learner"]["default_policy"]["learner_stats"]["action_loss"]
        mask = algorithm._left_out((100, 100), 0.2)
        assert abs((mask == 0).mean() - 0.2) < 0.02 and abs(mask.mean() - 1) < 0.02
        algorithm.stop()
    assert len(set(found.values())) == 4


def test_segments_are_drawn_evenly_and_say_what_was_still_to_come() -> None:
    replay = SegmentReplay(10, 3)
    for length in (6, 2, 4):  # the first goes for the last
        numbers = np.arange(length, dtype=np.float32) + 10 * length
        replay.add({"obs": numbers[:, None], "actions": numbers.astype(int), "rewards": np.ones(length)})
    assert len(replay) == 6
    again = SegmentReplay(10, 3)
    again.set_state(replay.state())
    batch, same = (each.sample(1200, np.random.default_rng(1)) for each in (replay, again))
    counts: dict[float, int] = {}
    for row, other in zip(batch.rows(), same.rows(), strict=True):
        there = row["loss_mask"] > 0
        first = row["obs"][there][0, 0]
        counts[first] = counts.get(first, 0) + 1
        length, begin = int(first // 10), int(first % 10)
        steps = np.arange(begin, min(begin + 3, length))
        np.testing.assert_array_equal(row["obs"][there][:, 0], 10 * length + steps)
        np.testing.assert_array_equal(row["returns_to_go"][there], length - steps)
        np.testing.assert_array_equal(row["timesteps"][there], steps)
        assert not row["obs"][~there].any() and there[-len(steps) :].all()
        np.testing.assert_array_equal(row["obs"], other["obs"])
    assert sorted(counts) == [20, 21, 40, 41, 42, 43] and min(counts.values()) > 140


@pytest.mark.parametrize("continuous", [False, True])
def test_asked_for_more_it_reaches_more(continuous: bool, tmp_path: Path) -> None:
    settings = {
        **SMALL, "env_config": {"continuous": continuous}, "input": recorded(tmp_path, continuous=continuous),
        "embed_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0, "lr": 6e-3,
        "min_train_timesteps_per_iteration": 30_000,
        "evaluation_interval": 1, "evaluation_duration": 4, "evaluation_config": {"explore": False},
    }  # fmt: skip
    algorithm = algorithm_class("DT")(settings)
    assert algorithm.train()["evaluation"]["episode_reward_mean"] > 5.5
    reached = {}
    env = Ladder({"continuous": continuous})
    for target in (0, 3, 6):
        observation, _ = env.reset()
        given, total, ended = algorithm.get_initial_input_dict(observation, target), 0.0, False
        while not ended:
            action, _, extra = algorithm.compute_single_action(input_dict=given, full_fetch=True, explore=False)
            observation, reward, ended, _, _ = env.step(action)
            given, total = algorithm.get_next_input_dict(given, action, reward, observation, extra), total + reward
        reached[target] = total
    assert reached[0] < 0.5 and abs(reached[3] - 3) <= 1 and reached[6] > 5.5
    with pytest.raises(SpaceError, match=r"extra_action_out has no state_out_0: give the third value"):
        algorithm.get_next_input_dict(given, 1, 0.0, observation, {})
    algorithm.stop()


def test_evaluations_may_ask_for_another_return() -> None:
    settings = {**SMALL, "evaluation_interval": 1, "evaluation_config": {"target_return": 2}}
    algorithm = algorithm_class("DT")(settings)
    evaluates = algorithm.policy_blueprint(algorithm.evaluations.config, evaluates=True)
    options = evaluates.module.options
    assert (options.target, options.return_scale) == (2, 6) and algorithm.blueprint.module.options.target == 6
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_the_bits_are_the_same_for_any_number_of_runners_and_after_a_checkpoint(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "recorded")
    settings = {**SMALL, "input": folder, "store_buffer_in_checkpoints": True}
    cls = algorithm_class("DT")
    alone, two = cls(settings), cls({**settings, "num_env_runners": 2})
    weights_after(1, alone)
    path = alone.save(str(tmp_path / "kept"))
    expected = weights_after(2, alone)
    assert weights_after(3, two) == expected
    resumed = cls(settings)
    resumed.restore(path)
    assert weights_after(2, resumed) == expected
    for algorithm in (alone, two, resumed):
        algorithm.stop()


def test_it_learns_from_what_it_plays_itself_and_counts_its_steps() -> None:
    algorithm = algorithm_class("DT")(SMALL)
    result = algorithm.train()
    assert result["timesteps_total"] % STEPS == 0 and 2000 <= algorithm.env_steps_trained < 2300
    width = algorithm.replay.sample(2, np.random.default_rng(1))["obs"].shape
    assert width == (2, 4, 2)
    algorithm.stop()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"target_return": None}, "target_return is None, but it says which return is to be reached"),
        ({"horizon": None}, "horizon is None, but steps are numbered up to it; set it to the most steps"),
        ({"num_heads": 3}, "embed_dim=16 can't be shared by num_heads=3; make it a multiple"),
        ({"batch_mode": "truncate_episodes"}, "batch_mode='truncate_episodes' cuts episodes, and what was still"),
        ({"gamma": 0.5}, "gamma has no effect on DT: what was still to come is not discounted"),
        ({"model": {"fcnet_hiddens": [4]}}, "has no effect on DT: its network is a transformer"),
        (
            {
                "env": None,
                "observation_space": SPACE,
                "action_space": gymnasium.spaces.MultiBinary(2),
            },
            "actions are of MultiBinary.2., and have to be Discrete or a Box; take BC or MARWIL",
        ),
    ],
)
def test_what_does_not_fit_is_refused(wrong: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        algorithm_class("DT")({**SMALL, "input": recorded(tmp_path, count=2), **wrong})
