"""Estimators: exact on a chain of two states whose episodes can all be counted, and in runs that read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import ConfigError, DataError
from kernel_rllib.offline.estimators.estimator import OffPolicyEstimate, OffPolicyEstimator
from kernel_rllib.offline.estimators.importance_sampling import (
    ImportanceSamplingEstimator,
    WeightedImportanceSamplingEstimator,
)
from kernel_rllib.offline.json_writer import JsonWriter
from kernel_rllib.training.registry import algorithm_class

GAMMA, HORIZON = 0.9, 3
MOVES = np.array([[[0.8, 0.2], [0.3, 0.7]], [[0.5, 0.5], [0.1, 0.9]]])
"""How likely each state [s, a, s'] comes next."""
REWARDS = np.array([[1.0, 0.0], [-0.5, 2.0]])
"""What each action brings [s, a]."""
RECORDED = np.array([[0.6, 0.4], [0.7, 0.3]])
"""How likely each action was in each state."""
ASKED = np.array([[0.2, 0.8], [0.5, 0.5]])
"""How likely it is by the policy that is estimated."""


class Table:
    """A policy of two states, which its observation is."""

    def __init__(self, shares: Any) -> None:
        self._shares = shares

    def compute_log_likelihoods(self, actions: Any, obs_batch: Any) -> Any:
        return np.log(self._shares[obs_batch[:, 0].astype(int), actions])


def value(shares: Any) -> float:
    """Return what a policy is worth from state 0 in `HORIZON` steps, by going back from the end."""
    values = np.zeros(2)
    for _ in range(HORIZON):
        values = (shares * (REWARDS + GAMMA * MOVES @ values)).sum(axis=1)
    return float(values[0])


def episodes() -> Iterator[tuple[float, Batch]]:
    """Yield each episode that there can be, with how likely the recorded policy plays it."""
    for actions in itertools.product((0, 1), repeat=HORIZON):
        for later in itertools.product((0, 1), repeat=HORIZON - 1):
            states = (0, *later)
            chance = float(np.prod([RECORDED[s, a] for s, a in zip(states, actions, strict=True)]))
            moves = zip(states, actions, states[1:], strict=False)
            chance *= float(np.prod([MOVES[s, a, following] for s, a, following in moves]))
            yield chance, episode(states, actions)


def episode(states: Any, actions: Any) -> Batch:
    places = np.array(states), np.array(actions)
    return Batch(
        obs=places[0][:, None].astype(np.float32), actions=places[1], rewards=REWARDS[places],
        action_prob=RECORDED[places],
    )  # fmt: skip


def test_importance_sampling_has_no_bias() -> None:
    """The mean over all episodes that there can be, by how likely they are, is the value."""
    for asked in (ASKED, RECORDED, np.eye(2)):
        with np.errstate(divide="ignore"):
            estimator = ImportanceSamplingEstimator(Table(asked), GAMMA)
            found = [(chance, estimator.estimate(batch).metrics) for chance, batch in episodes()]
        assert abs(sum(chance for chance, _ in found) - 1) < 1e-12
        mean = sum(chance * metrics["V_step_IS"] for chance, metrics in found)
        np.testing.assert_allclose(mean, value(asked), rtol=1e-12)
        before = sum(chance * metrics["V_prev"] for chance, metrics in found)
        np.testing.assert_allclose(before, value(RECORDED), rtol=1e-12)


def sampled(count: int, seed: int) -> list[Batch]:
    """Return episodes that the recorded policy plays."""
    random, made = np.random.default_rng(seed), []
    for _ in range(count):
        states, actions = [0], []
        for _ in range(HORIZON):
            actions.append(int(random.random() < RECORDED[states[-1], 1]))
            states.append(int(random.random() < MOVES[states[-1], actions[-1], 1]))
        made.append(episode(states[:-1], actions))
    return made


@pytest.mark.parametrize(
    ("kind", "name"), [(ImportanceSamplingEstimator, "V_step_IS"), (WeightedImportanceSamplingEstimator, "V_step_WIS")]
)
def test_means_over_many_episodes_come_near_to_the_value(kind: Any, name: str) -> None:
    estimator = kind(Table(ASKED), GAMMA)
    found = np.array([estimator.estimate(batch).metrics[name] for batch in sampled(4000, 1)])
    assert abs(found.mean() - value(ASKED)) < 3 * found.std() / np.sqrt(len(found))


def test_weighted_sampling_divides_by_the_mean_ratio_of_each_step() -> None:
    estimator, batches = WeightedImportanceSamplingEstimator(Table(ASKED), GAMMA), sampled(5, 2)
    batches[1] = batches[1].slice(0, 2)  # a shorter one counts in the first steps only
    ratios: list[list[float]] = [[], [], []]
    for batch in batches:
        now, expected = 1.0, 0.0
        for t, row in enumerate(batch.rows()):
            now *= ASKED[int(row["obs"][0]), row["actions"]] / row["action_prob"]
            ratios[t].append(now)
            expected += now / (sum(ratios[t]) / len(ratios[t])) * row["rewards"] * GAMMA**t
        found = estimator.estimate(batch)
        assert found.estimator_name == "wis"
        np.testing.assert_allclose(found.metrics["V_step_WIS"], expected, rtol=1e-12)
        gain = expected / max(1e-8, found.metrics["V_prev"])
        np.testing.assert_allclose(found.metrics["V_gain_est"], gain, rtol=1e-12)


def test_log_probabilities_do_and_neither_is_refused() -> None:
    (batch,) = sampled(1, 3)
    estimator = ImportanceSamplingEstimator(Table(ASKED), GAMMA)
    logs = Batch(
        {name: batch[name] for name in ("obs", "actions", "rewards")}, action_logp=np.log(batch["action_prob"])
    )
    np.testing.assert_allclose(
        estimator.estimate(logs).metrics["V_step_IS"], estimator.estimate(batch).metrics["V_step_IS"]
    )
    with pytest.raises(DataError, match="has neither action_prob nor action_logp, only actions, obs, rewards. Record"):
        estimator.estimate(batch.only(["obs", "actions", "rewards"]))


SMALL: dict[str, Any] = {
    "env": None, "observation_space": gymnasium.spaces.Box(0, 1, (1,), np.float32), "seed": 1,
    "action_space": gymnasium.spaces.Discrete(2), "num_env_runners": 0, "train_batch_size": 60, "lr": 0.0,
    "gamma": GAMMA, "model": {"fcnet_hiddens": [4]}, "rollout_fragment_length": 60,
}  # fmt: skip


class Count(OffPolicyEstimator):
    """Counts steps."""

    def estimate(self, batch: Batch) -> OffPolicyEstimate:
        return OffPolicyEstimate("count", {"steps": batch.count})


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Return a folder with episodes."""
    writer = JsonWriter(str(tmp_path))
    for number, batch in enumerate(sampled(20, 4)):
        ends = np.arange(HORIZON) == HORIZON - 1
        batch["dones"], batch["eps_id"] = ends, np.full(HORIZON, number)
        batch["rewards"] = batch["rewards"].astype(np.float32)
        writer.write(batch)
    writer.close()
    return str(tmp_path)


def test_runs_that_read_have_estimates_in_their_results(folder: str) -> None:
    methods = {"is": {"type": "is"}, "mine": {"type": WeightedImportanceSamplingEstimator}, "count": {"type": Count}}
    algorithm = algorithm_class("MARWIL")({**SMALL, "input_": folder, "off_policy_estimation_methods": methods})
    found = algorithm.train()["off_policy_estimator"]
    policy = algorithm.get_policy()
    expected = [ImportanceSamplingEstimator(policy, GAMMA).estimate(batch).metrics for batch in sampled(20, 4)]
    for name in ("V_prev", "V_step_IS", "V_gain_est"):
        np.testing.assert_allclose(found["is"][name], np.mean([each[name] for each in expected]), rtol=1e-3)
    assert found["count"] == {"steps": 3} and "V_step_WIS" in found["mine"]
    algorithm.stop()


def test_the_names_of_the_first_generation_ask_for_estimates(folder: str) -> None:
    for name in ("MARWIL", "DQN"):
        settings = {"input": folder, "input_evaluation": ["is", "wis"], "min_sample_timesteps_per_iteration": 1}
        algorithm = algorithm_class(name)({**SMALL, "train_batch_size": 8, **settings})
        assert sorted(algorithm.train()["off_policy_estimator"]) == ["is", "wis"]
        algorithm.stop()
    algorithm = algorithm_class("MARWIL")({**SMALL, "input": folder, "input_evaluation": []})
    assert "off_policy_estimator" not in algorithm.train()
    algorithm.stop()


@pytest.mark.parametrize(
    ("name", "methods", "said"),
    [
        (
            "MARWIL",
            ["iss"],
            "the estimator 'iss' is 'iss'; did you mean 'is'?.*: take is, wis, dm, dr, or a class",
        ),
        (
            "MARWIL",
            ["simulation"],
            "'simulation', which plays in the environment: leave it out, and set evaluation_",
        ),
        ("A3C", ["is"], "are for one policy, and for algorithms whose runners don't learn themselves: leave them out"),
    ],
)
def test_estimators_that_are_not_there_are_refused(name: str, methods: list[str], said: str, folder: str) -> None:
    settings = {key: each for key, each in SMALL.items() if name != "A3C" or key != "train_batch_size"}
    own = {"sample_async": False} if name == "A3C" else {}
    with pytest.raises(ConfigError, match=said):
        algorithm_class(name)({**settings, **own, "input": folder, "input_evaluation": methods})
