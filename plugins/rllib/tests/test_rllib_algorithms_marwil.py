"""MARWIL and BC: their loss is the paper's, they learn what was recorded, MARWIL what of it was better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from kernel_rllib.algorithms.marwil import MARWILConfig, marwil_loss
from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.errors import ConfigError
from kernel_rllib.experiments.trained_policy_input import TrainedPolicyInput
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.nn.backends import backend
from kernel_rllib.offline.input_reader import InputReader
from kernel_rllib.offline.io_context import IOContext
from kernel_rllib.offline.json_writer import JsonWriter
from kernel_rllib.testing.reference import imitation
from kernel_rllib.testing.training import weights_after
from kernel_rllib.training.registry import algorithm_class

SPACES = {
    "observation_space": gymnasium.spaces.Box(-9, 9, (2,), np.float32), "action_space": gymnasium.spaces.Discrete(2),
}  # fmt: skip
SMALL: dict[str, Any] = {
    **SPACES, "env": None, "seed": 1, "num_envs": 2, "num_env_runners": 0, "num_cpus_per_env_runner": 0, "lr": 0.02,
    "train_batch_size": 64, "model": {"fcnet_hiddens": [16], "vf_share_layers": False},
    "min_sample_timesteps_per_iteration": 256,
}  # fmt: skip
BOTH = pytest.mark.parametrize("name", ["MARWIL", "BC"])


def recorded(count: int = 400) -> Batch:
    """Return episodes of one step, of a policy that takes either action; the better one is told by what is observed."""
    random = np.random.default_rng(3)
    obs = random.choice([-1.0, 1.0], (count, 1)).repeat(2, axis=1).astype(np.float32)
    actions = random.integers(0, 2, count)
    rewards = (actions == (obs[:, 0] > 0)).astype(np.float32) * 10
    ends = np.ones(count, bool)
    return Batch(obs=obs, new_obs=obs, actions=actions, rewards=rewards, terminateds=ends, truncateds=~ends)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Return a folder with these steps in several lines."""
    writer = JsonWriter(str(tmp_path / "recorded"))
    for part in recorded().timeslices(40):
        writer.write(part)
    writer.close()
    return str(tmp_path / "recorded")


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-10)])
@pytest.mark.parametrize("beta", [0.0, 1.0, 2.5])
def test_the_loss_and_its_gradient_are_those_of_the_formulas(dtype: Any, tolerance: float, beta: float) -> None:
    random = np.random.default_rng(1)
    batch = Batch(
        obs=random.normal(size=(12, 3)).astype(dtype),
        actions=random.integers(0, 4, 12),
        value_targets=(3 * random.normal(size=12)).astype(dtype),
    )
    module = ActorCritic((3,), 4, options=ActorCriticOptions(hidden=()))
    distribution = for_space(gymnasium.spaces.Discrete(4))
    numpy = backend("numpy")
    vector = numpy.vector(random.normal(size=module.table.size).astype(dtype))
    settings = MARWILConfig().training(beta=beta, vf_coeff=0.7)
    loss = marwil_loss(settings, distribution, lambda: 2.0)
    metrics, gradient = numpy.gradient(lambda nn, p: loss(nn, module, p, batch), vector, module.table)
    weights, slopes = (
        {name: view.astype(float) for name, view in module.table.views(v).items()} for v in (vector, gradient)
    )
    policy, value = sorted(name for name in weights if name.endswith("weight"))
    obs = batch["obs"].astype(float)
    heads = {name: obs @ weights[name] + weights[name.replace("weight", "bias")] for name in (policy, value)}
    given = heads[policy], heads[value][:, 0], batch["actions"].tolist(), batch["value_targets"].astype(float)
    options: Any = {"beta": beta, "norm": 2.0, "vf_coeff": 0.7}
    expected = imitation.softmax_imitation_loss(*given, **options)
    np.testing.assert_allclose(metrics["total_loss"], expected.total, rtol=tolerance)
    np.testing.assert_allclose(metrics["policy_loss"], expected.policy, rtol=tolerance)
    by_logits, by_values = imitation.softmax_imitation_gradients(*given, **options)
    np.testing.assert_allclose(slopes[policy], obs.T @ by_logits, rtol=10 * tolerance, atol=tolerance)
    np.testing.assert_allclose(slopes[value][:, 0], obs.T @ by_values, rtol=10 * tolerance, atol=tolerance)
    assert ("vf_loss" in metrics) == bool(beta)


def outputs(algorithm: Any, obs: Array) -> Array:
    """Return what the policy gives for observations: the inputs of distributions of actions."""
    module = algorithm.learner.module
    found: Array = algorithm.learner.evaluate(lambda nn, p: module.explore(nn, p, {"obs": obs})["action_dist_inputs"])
    return found


def chances(algorithm: Any) -> Array:
    """Return how likely the better action is, for each of the two observations."""
    found = outputs(algorithm, np.array([[-1, -1], [1, 1]], np.float32))
    shares = np.exp(found) / np.exp(found).sum(axis=1, keepdims=True)
    return np.array([shares[0, 0], shares[1, 1]])


def test_bc_imitates_all_alike_and_marwil_what_was_better(folder: str) -> None:
    found = {}
    for name in ("BC", "MARWIL"):
        norm = {"moving_average_sqd_adv_norm_start": 25.0} if name == "MARWIL" else {}
        algorithm = algorithm_class(name)(
            {**SMALL, "input": folder, "min_sample_timesteps_per_iteration": 20_000, **norm}
        )
        algorithm.train()
        found[name] = chances(algorithm)
        algorithm.stop()
    data = recorded()
    better = data["rewards"] > 0
    shares = np.array([better[data["obs"][:, 0] < 0].mean(), better[data["obs"][:, 0] > 0].mean()])
    np.testing.assert_allclose(found["BC"], shares, atol=0.06)
    odds = shares / (1 - shares) * np.exp(10 / 5)  # the advantages of both differ by 10, and are divided by 5
    np.testing.assert_allclose(found["MARWIL"], odds / (1 + odds), atol=0.06)


def test_returns_count_rewards_to_the_end_and_values_where_episodes_break_off() -> None:
    rows = Batch(
        obs=np.ones((4, 2), np.float32), new_obs=np.ones((4, 2), np.float32), actions=[0, 1, 0, 1],
        rewards=np.array([1, 2, 4, 8], np.float32), terminateds=[False, True, False, False],
        truncateds=[False, False, False, True],
    )  # fmt: skip

    class Once(InputReader):
        def next(self) -> Batch:
            return rows

    algorithm = algorithm_class("MARWIL")({**SMALL, "num_envs": 1, "input": lambda ioctx: Once(), "gamma": 0.5})
    fragment, module = algorithm.sample(), algorithm.learner.module
    value = float(algorithm.learner.evaluate(lambda nn, p: module.values(nn, p, {"obs": rows["obs"]}))[0])
    assert value != 0
    targets = algorithm.experience(fragment)["value_targets"][:4]
    np.testing.assert_allclose(targets, [2, 2, 4 + 0.5 * (8 + 0.5 * value), 8 + 0.5 * value], rtol=1e-5)
    algorithm.stop()


def test_the_moving_mean_of_squared_advantages_follows(folder: str) -> None:
    settings = {"moving_average_sqd_adv_norm_start": 4.0, "moving_average_sqd_adv_norm_update_rate": 0.5}
    algorithm = algorithm_class("MARWIL")({**SMALL, "input": folder, "train_batch_size": 40, "num_envs": 1, **settings})
    seen: list[float] = []
    usual = algorithm.update

    def update(batch: Batch) -> Any:
        metrics = usual(batch)
        seen.append(float(metrics["adv_squared_mean"]))
        return metrics

    algorithm.update = update
    algorithm.train()
    expected = 4.0
    for squared in seen:
        expected += 0.5 * (squared - expected)
    assert len(seen) > 3
    np.testing.assert_allclose(algorithm.squared_norm, expected, rtol=1e-6)
    algorithm.stop()


@BOTH
@pytest.mark.usefixtures("session")
def test_the_bits_are_the_same_for_any_number_of_runners_and_after_a_checkpoint(
    name: str, folder: str, tmp_path: Path
) -> None:
    settings = {**SMALL, "input": folder, "store_buffer_in_checkpoints": True}
    cls = algorithm_class(name)
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


def test_continuous_actions_and_wider_deviations() -> None:
    rows = Batch(recorded(64), actions=np.random.default_rng(1).normal(0.5, 0.1, (64, 1)).astype(np.float32))

    class Once(InputReader):
        def next(self) -> Batch:
            return rows

    box = {"action_space": gymnasium.spaces.Box(-1, 1, (1,)), "input": lambda ioctx: Once()}
    found = []
    for coefficient in (0.0, 0.5):
        algorithm = algorithm_class("BC")(
            {**SMALL, **box, "bc_logstd_coeff": coefficient, "min_sample_timesteps_per_iteration": 10_000}
        )
        algorithm.train()
        found.append(outputs(algorithm, np.ones((1, 2), np.float32))[0])
        algorithm.stop()
    assert abs(found[0][0] - 0.5) < 0.1 and found[1][1] > found[0][1] + 0.1


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("BC", {"beta": 1.0}, "beta=1.0 weighs what is imitated by how it turned out, which is MARWIL; leave it at 0"),
        ("BC", {"gamma": 0.5}, "gamma has no effect on BC: it imitates all alike, whatever it was worth"),
        (
            "MARWIL",
            {"bc_logstd_coeff": 1.0},
            "bc_logstd_coeff=1.0 widens Gaussian actions, and these are of Cat",
        ),
        ("MARWIL", {"num_epochs": 3}, "num_epochs has no effect on MARWIL: it learns from each batch once"),
    ],
)
def test_settings_that_do_not_fit_are_refused(name: str, wrong: dict[str, Any], said: str, folder: str) -> None:
    with pytest.raises(ConfigError, match=said):
        algorithm_class(name)({**SMALL, "input": folder, **wrong})


def test_a_policy_that_was_trained_is_an_input_of_its_own() -> None:
    given = {"experiment": "ppo-cartpole-v1", "train_steps": 256, "steps": 300}
    config = {"seed": 3, "input_config": given}
    first, again = (TrainedPolicyInput(IOContext(config=config, seed=1)) for _ in range(2))
    batches = [first.next() for _ in range(20)]
    assert sum(batch.count for batch in batches) >= 200 and all(len(set(batch["eps_id"])) == 1 for batch in batches)
    np.testing.assert_array_equal(again.next()["obs"], batches[0]["obs"])
    again.set_state(first.state())
    np.testing.assert_array_equal(again.next()["obs"], first.next()["obs"])
    with pytest.raises(ConfigError, match="TrainedPolicyInput needs train_steps, steps in input_config: the name of"):
        TrainedPolicyInput(IOContext(config={"seed": 1, "input_config": {"experiment": "ppo-cartpole-v1"}}))
