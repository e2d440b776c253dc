"""IMPALA and APPO: fragments as they come, V-trace for the policies that made them, passes that stay near."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.a3c import A3C
from kernel_rllib.algorithms.advantages import estimate_by_v_trace, fragment_values, policy_of
from kernel_rllib.algorithms.impala import IMPALA
from kernel_rllib.algorithms.ppo import adapted
from kernel_rllib.data import columns
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.envs.games.guess_the_action import GuessTheAction
from kernel_rllib.envs.multi_agent import make_multi_agent
from kernel_rllib.errors import ConfigError
from kernel_rllib.replay.fragments import FragmentReplay
from kernel_rllib.returns.gae import gae
from kernel_rllib.testing.reference import returns
from kernel_rllib.training.registry import algorithm_class

import kernel

LSTM = {"fcnet_hiddens": [16], "use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 4}
SMALL = {
    "env": "CartPole-v1",
    "seed": 3,
    "num_envs": 4,
    "num_env_runners": 0,
    "num_cpus_per_env_runner": 0,
    "min_time_s_per_iteration": 0,
    "rollout_fragment_length": 8,
    "train_batch_size": 32,
    "lr": 1e-2,
    "model": {"fcnet_hiddens": [16]},
}
MODELS = pytest.mark.parametrize("model", [{"fcnet_hiddens": [16]}, LSTM], ids=["dense", "lstm"])
BOTH = pytest.mark.parametrize("name", ["IMPALA", "APPO"])


def made(name: str = "IMPALA", **settings: Any) -> Any:
    """Return a small algorithm with four lanes in all."""
    return algorithm_class(name)({**SMALL, **settings})


def reported(algorithm: Any) -> dict[str, Any]:
    """Train once, and return what the learner reports."""
    found: dict[str, Any] = algorithm.train()["learners"]["default_policy"]
    return found


def sampled_by_older_parameters(algorithm: IMPALA) -> Fragment:
    """Return a fragment that was sampled with other parameters than those that the learner has."""
    algorithm.train()
    fragment = algorithm.sample()
    noise = np.random.default_rng(0).normal(size=algorithm.learner.vector.shape)
    algorithm.learner.vector[...] += (0.3 * noise).astype(np.float32)
    return fragment


def ends(fragment: Fragment) -> tuple[Any, Any]:
    """Return the flags of where episodes end."""
    return fragment.columns[columns.TERMINATEDS], fragment.columns[columns.TRUNCATEDS]


@MODELS
def test_in_one_process_it_is_a3c(model: dict[str, Any]) -> None:
    """The policy that acts is the one that learns: V-trace gives the returns of A3C."""
    found, same = made(model=model), A3C({**SMALL, "sample_async": False, "model": model, "grad_clip": 40.0})
    for _ in range(3):
        found.train(), same.train()
        np.testing.assert_allclose(found.learner.weights, same.learner.weights, atol=2e-5)
    assert found.env_steps_trained == found.env_steps_sampled == 96


@MODELS
def test_the_policy_of_now_has_the_probabilities_of_the_runner_that_sampled_with_it(model: dict[str, Any]) -> None:
    algorithm = made(model=model)
    algorithm.train()
    fragment = algorithm.sample()
    inputs, log_probs = policy_of(algorithm.learner, fragment, algorithm.distribution)
    np.testing.assert_allclose(log_probs, fragment.columns[columns.ACTION_LOGP], atol=1e-5)
    np.testing.assert_allclose(inputs, fragment.columns[columns.ACTION_DIST_INPUTS], atol=1e-5)


@MODELS
def test_targets_are_those_of_v_trace_for_what_older_parameters_sampled(model: dict[str, Any]) -> None:
    algorithm = made(model=model)
    fragment = sampled_by_older_parameters(algorithm)
    acted = fragment.columns[columns.ACTION_LOGP].copy()
    values, next_values = fragment_values(algorithm.learner, fragment)
    _, log_probs = policy_of(algorithm.learner, fragment, algorithm.distribution)
    assert np.abs(log_probs - acted).max() > 0.1
    bounds = {"rho_bar": 0.9, "policy_rho_bar": 1.1}
    estimate_by_v_trace(algorithm.learner, fragment, algorithm.distribution, gamma=0.9, **bounds)
    found = fragment.columns
    given = (log_probs - acted, found[columns.REWARDS], values, next_values, *ends(fragment))
    for lane in range(fragment.shape[1]):
        targets, advantages = returns.vtrace(*(column[:, lane] for column in given), gamma=0.9, **bounds)
        np.testing.assert_allclose(found[columns.VALUE_TARGETS][:, lane], targets, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found[columns.ADVANTAGES][:, lane], advantages, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found[columns.ACTION_LOGP], log_probs)


def test_a_surrogate_that_begins_at_the_policy_of_now_has_the_gradient_of_impala() -> None:
    one, other = made(entropy_coeff=0.02), made("APPO", entropy_coeff=0.02)
    for algorithm in (one, other):
        algorithm.train()
    np.testing.assert_allclose(other.learner.weights, one.learner.weights, atol=1e-6)
    assert other.learner.version == one.learner.version == 1


def test_passes_over_a_batch_stay_near_to_where_they_began() -> None:
    """The clipped surrogate has no gradient beyond its bounds; the plain loss goes on."""
    ways = {}
    for name in ("IMPALA", "APPO"):
        algorithm = made(name, num_epochs=30, lr=0.05, grad_clip=None, entropy_coeff=0.0)
        fragment = algorithm.sample()
        before = fragment.columns[columns.ACTION_LOGP]
        algorithm.learn([fragment])
        ways[name] = float(np.abs(policy_of(algorithm.learner, fragment, algorithm.distribution)[1] - before).mean())
    assert ways["APPO"] < ways["IMPALA"] / 2


@BOTH
def test_without_v_trace_returns_are_taken_as_they_are(name: str) -> None:
    plain, corrected = made(name, vtrace=False), made(name, vtrace=True)
    for algorithm in (plain, corrected):
        fragment = sampled_by_older_parameters(algorithm)
        algorithm.estimate(fragment)
        values, next_values = fragment_values(algorithm.learner, fragment)
        found = fragment.columns
        given = (found[columns.REWARDS], values, next_values, *ends(fragment))
        expected = gae(*given, gamma=0.99, lambda_=1.0)[1]
        assert np.allclose(found[columns.VALUE_TARGETS], expected, atol=1e-4) == (algorithm is plain)


@BOTH
@MODELS
def test_it_goes_on_after_a_checkpoint_with_the_same_bits(name: str, model: dict[str, Any], tmp_path: Path) -> None:
    settings = {"model": model, "replay_proportion": 1.5, "replay_buffer_num_slots": 3}
    straight, resumed = made(name, **settings), made(name, **settings)
    for _ in range(3):
        straight.train()
    path = straight.save(str(tmp_path / "checkpoint"))
    resumed.restore(path)
    for _ in range(3):
        straight.train(), resumed.train()
    assert resumed.learner.weights.tobytes() == straight.learner.weights.tobytes()


@BOTH
def test_runners_act_with_the_parameters_of_the_last_broadcast(name: str) -> None:
    algorithm = made(name, broadcast_interval=3)
    assert [reported(algorithm)["policy_lag"] for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_kept_fragments_are_learned_from_again_as_often_as_it_is_said() -> None:
    algorithm = made(replay_proportion=2.0, replay_buffer_num_slots=4)
    for _ in range(5):
        algorithm.train()
    assert algorithm.env_steps_sampled == 5 * 32
    assert algorithm.env_steps_trained == 5 * 32 + 2 * 4 * 32


def fragments(number: int) -> list[Fragment]:
    """Return fragments that are told apart by their versions."""
    none = np.zeros((0, 2), int)
    return [
        Fragment({columns.REWARDS: np.zeros((1, 1))}, np.zeros(1), none, np.zeros(0), np.zeros(1, int), version)
        for version in range(number)
    ]


@pytest.mark.parametrize("proportion", [0.3, 1.0, 2.6])
def test_the_last_fragments_come_again_with_equal_chances(proportion: float) -> None:
    replay, slots = FragmentReplay(4, proportion, np.random.default_rng(0)), 4
    ages: list[int] = []
    for new in fragments(2000):
        found = [each.weights_version for each in replay.with_older([new])]
        assert found[0] == new.weights_version
        ages += [new.weights_version - version for version in found[1:]]
    assert len(ages) / 2000 == pytest.approx(proportion, rel=0.1)
    assert set(ages) == set(range(1, slots + 1))
    counts = np.bincount(ages)[1:]
    assert counts.min() > 0.8 * counts.max()


@pytest.mark.parametrize(("slots", "proportion"), [(0, 1.0), (4, 0.0)])
def test_without_slots_or_proportion_nothing_is_kept(slots: int, proportion: float) -> None:
    replay = FragmentReplay(slots, proportion, np.random.default_rng(0))
    given = fragments(6)
    assert replay.with_older(given) == given
    assert not replay.state()["fragments"]


def test_rmsprop_takes_its_settings() -> None:
    algorithm = made(opt_type="rmsprop", decay=0.8, momentum=0.3, epsilon=0.2)
    optimizer = algorithm.learner._objectives["impala"].optimizer
    assert (optimizer._alpha, optimizer._momentum, optimizer._epsilon) == (0.8, 0.3, 0.2)
    assert type(made().learner._objectives["impala"].optimizer).__name__ == "Adam"


@pytest.mark.parametrize(("kl", "expected"), [(0.021, 1.5), (0.015, 1.0), (0.006, 1.0), (0.004, 0.5), (None, 1.0)])
def test_the_penalty_follows_the_distance(kl: float | None, expected: float) -> None:
    assert adapted(1.0, {} if kl is None else {"kl": kl}, 0.01) == expected


def test_a_penalty_on_the_distance_is_a_part_of_the_loss_of_appo() -> None:
    algorithm = made("APPO", use_kl_loss=True, kl_coeff=1.0, num_epochs=4, lr=0.05)
    assert "kl" in reported(algorithm)
    assert algorithm.kl_coefficient != 1.0
    assert "kl" not in reported(made("APPO"))


def test_v_trace_needs_values() -> None:
    with pytest.raises(ConfigError, match="vtrace=True needs the value function that use_critic=False leaves out"):
        made("APPO", use_critic=False, use_gae=False)
    assert "vf_loss" not in reported(made("APPO", vtrace=False, use_critic=False, use_gae=False))


@BOTH
def test_several_policies_learn_each_from_what_it_did(name: str) -> None:
    policies = {"left": (None, None, None, {}), "right": (None, None, None, {"lr": 0.0})}
    algorithm = algorithm_class(name)(
        {
            **SMALL,
            "env": make_multi_agent("CartPole-v1"),
            "env_config": {"num_agents": 2},
            "multiagent": {"policies": policies, "policy_mapping_fn": lambda agent, *_: ("left", "right")[agent]},
        }
    )
    before = {policy: learner.weights.copy() for policy, learner in algorithm.learners.items()}
    result = algorithm.train()
    assert set(result["learners"]) == {"left", "right"}
    assert not np.array_equal(algorithm.learners["left"].weights, before["left"])
    assert np.array_equal(algorithm.learners["right"].weights, before["right"])


@pytest.mark.usefixtures("session")
@BOTH
def test_it_learns_which_action_is_right_with_two_runners(name: str) -> None:
    algorithm = made(name, num_env_runners=2, env=GuessTheAction, lr=2e-2, entropy_coeff=0.0)
    best = 0.0
    for _ in range(300):
        best = max(best, algorithm.train()["episode_reward_mean"])
        if best > 0.95:
            break
    assert best > 0.95, "chance has 0.25"
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_runners_sample_ahead_of_the_learner() -> None:
    algorithm = made(num_env_runners=2)
    found = [reported(algorithm) for _ in range(8)]
    for report in found:
        assert 0 <= report["policy_lag_min"] <= report["policy_lag"] <= report["policy_lag_max"]
    assert found[0]["policy_lag_max"] == 0
    assert max(report["policy_lag_max"] for report in found) > 0
    assert algorithm.env_steps_sampled == algorithm.env_steps_trained == 8 * 32
    algorithm.stop()


@pytest.mark.usefixtures("session")
@BOTH
def test_a_runner_that_dies_is_replaced_while_the_others_go_on(name: str) -> None:
    algorithm = made(name, num_env_runners=2)
    algorithm.train()
    kernel.kill(algorithm.runners._remote[1].handle)
    for _ in range(6):
        algorithm.train()
    assert algorithm.runners.num_healthy_runners == 2
    assert algorithm.runners._remote[1].place.incarnation == 1
    assert algorithm.env_steps_sampled == algorithm.env_steps_trained == 7 * 32
    algorithm.stop()
