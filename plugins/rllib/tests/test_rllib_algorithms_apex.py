"""Ape-X: runners that never wait and say how large errors are, shards of replay, and a learner that takes from them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.experience import ExperienceWork
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import joined
from kernel_rllib.envs.games.guess_the_action import GuessTheAction
from kernel_rllib.envs.multi_agent import make_multi_agent
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.epsilon_greedy import PerWorkerEpsilonGreedy
from kernel_rllib.replay.transitions import DISCOUNTS, Transitions
from kernel_rllib.testing.reference import returns
from kernel_rllib.training.registry import algorithm_class

import kernel

SMALL: dict[str, Any] = {
    "env": "CartPole-v1",
    "seed": 3,
    "num_envs": 4,
    "num_env_runners": 0,
    "num_cpus_per_env_runner": 0,
    "min_time_s_per_iteration": 0,
    "min_sample_timesteps_per_iteration": 32,
    "rollout_fragment_length": 8,
    "train_batch_size": 16,
    "num_steps_sampled_before_learning_starts": 32,
    "replay_buffer_config": {"capacity": 4000},
    "optimizer": {"num_replay_buffer_shards": 0, "max_weight_sync_delay": 32},
    "lr": 1e-2,
    "model": {"fcnet_hiddens": [16]},
    "hiddens": [],
}
NETS = {"model": {}, "actor_hiddens": [8], "critic_hiddens": [8], "env": "Pendulum-v1"}
KINDS: dict[str, dict[str, Any]] = {"ApexDQN": SMALL, "ApexDDPG": {**SMALL, **NETS}}
KINDS["ApexDDPG"].pop("hiddens"), KINDS["ApexDDPG"].pop("lr")
BOTH = pytest.mark.parametrize("name", KINDS)
REMOTE = {"num_env_runners": 2, "optimizer": {"num_replay_buffer_shards": 2, "max_weight_sync_delay": 32}}


def made(name: str = "ApexDQN", **settings: Any) -> Any:
    """Return a small algorithm with four lanes in all."""
    return algorithm_class(name)({**KINDS[name], **settings})


def rows_of(algorithm: Any) -> int:
    """Return how many rows all shards hold, once they hold all that was sampled."""
    algorithm.shards.wait()
    found: int = algorithm.shards.rows("default_policy")
    return found


@BOTH
def test_names_of_all_releases_mean_the_same(name: str) -> None:
    older = {"ApexDQN": ("APEX", "APEX_DQN"), "ApexDDPG": ("APEX_DDPG",)}[name]
    assert {algorithm_class(each) for each in older} == {algorithm_class(name)}


@pytest.mark.parametrize("n", [1, 3])
def test_each_step_of_a_fragment_becomes_one_transition(n: int) -> None:
    algorithm = made(num_steps_sampled_before_learning_starts=10_000)
    fragment = joined([algorithm.runners.local.sampler.sample(40)])
    found = Transitions(n=n, gamma=0.9).of_whole(fragment)
    steps, lanes = fragment.shape
    assert found.count == steps * lanes
    ends = fragment.columns[columns.TERMINATEDS], fragment.columns[columns.TRUNCATEDS]
    assert ends[0].any()
    following = fragment.next_obs()
    for lane in range(lanes):
        given = (fragment.columns[columns.REWARDS][:, lane], ends[0][:, lane], ends[1][:, lane])
        expected = returns.n_step(*given, n, 0.9)
        mine = slice(lane, None, lanes)
        np.testing.assert_allclose(found[columns.REWARDS][mine], expected.rewards, rtol=1e-6)
        np.testing.assert_allclose(found[DISCOUNTS][mine], expected.discounts, rtol=1e-6)
        np.testing.assert_array_equal(found[columns.NEXT_OBS][mine], following[expected.last, lane])


def test_runners_compute_the_errors_by_the_parameters_that_acted() -> None:
    """|r + discount max Q(s') - Q(s, a)|: of one network, double learning is learning."""
    algorithm = made(n_step=3, gamma=0.9)
    policies = {"default_policy": (algorithm.config, algorithm.spaces)}
    runner = algorithm.runners.local
    runner.work = None
    sample = runner.sample(8)
    found = ExperienceWork(type(algorithm), policies, 3)(runner, sample).made["default_policy"]
    acted = runner.sampler.weights.copy()
    algorithm.learner.vector[...] += 1.0

    def values(observations: Any) -> Any:
        module, batch = algorithm.learner.module, Batch({columns.OBS: observations})
        outputs = algorithm.learner.evaluate(lambda nn, p: module.train(nn, p, batch), acted)
        return outputs[columns.Q_VALUES].astype(np.float64)

    rows = found.rows
    taken = values(rows[columns.OBS])[np.arange(rows.count), rows[columns.ACTIONS]]
    best = values(rows[columns.NEXT_OBS]).max(axis=1)
    np.testing.assert_allclose(
        np.abs(found.errors), np.abs(rows[columns.REWARDS] + rows[DISCOUNTS] * best - taken), rtol=1e-4, atol=1e-5
    )
    assert found.version == sample.fragments["default_policy"].weights_version


def test_without_worker_side_prioritization_new_rows_have_the_largest_priority() -> None:
    plain = {**SMALL["replay_buffer_config"], "worker_side_prioritization": False}
    algorithm = made(replay_buffer_config=plain)
    fragment = algorithm.runners.local.sampler.sample(8)
    assert algorithm.experience_of(fragment).errors is None
    assert made().replay._largest == 1.0 and made().experience_of(fragment).errors is not None


@BOTH
def test_it_goes_on_after_a_checkpoint_with_the_same_bits(name: str, tmp_path: Path) -> None:
    straight, resumed = (made(name, store_buffer_in_checkpoints=True) for _ in range(2))
    for _ in range(3):
        straight.train()
    resumed.restore(straight.save(str(tmp_path / "checkpoint")))
    for _ in range(3):
        straight.train(), resumed.train()
    assert straight.env_steps_trained > 0
    assert resumed.learner.weights.tobytes() == straight.learner.weights.tobytes()


@pytest.mark.parametrize(("intensity", "trained"), [(1.0, 128), (4.0, 512), (0.5, 64)])
def test_so_many_steps_are_learned_from_for_each_one_sampled(intensity: float, trained: int) -> None:
    algorithm = made(training_intensity=intensity)
    for _ in range(5):
        algorithm.train()
    assert (algorithm.env_steps_sampled, algorithm.env_steps_trained) == (160, trained + 32 * intensity)


def test_the_slower_copy_follows_by_steps_that_are_sampled() -> None:
    algorithm = made(target_network_update_freq=64)
    changes = []
    for _ in range(6):
        before = algorithm.target.vector.copy()
        algorithm.train()
        changes.append(not np.array_equal(before, algorithm.target.vector))
    assert changes == [False, True, False, True, False, True]


def test_runners_are_given_parameters_after_so_many_steps() -> None:
    optimizer = {"num_replay_buffer_shards": 0, "max_weight_sync_delay": 96}
    algorithm = made(optimizer=optimizer, training_intensity=0.5)
    versions = []
    for _ in range(7):
        algorithm.train()
        versions.append(algorithm.runners.local.sampler.weights_version)
    assert versions == [0, 0, 3, 3, 3, 6, 6]


def test_each_runner_has_an_epsilon_of_its_own() -> None:
    exploration = made().make_exploration()
    assert isinstance(exploration, PerWorkerEpsilonGreedy)
    found = [exploration.of_runner(index, 5).info(0)["cur_epsilon"] for index in range(1, 6)]
    np.testing.assert_allclose(found, [0.4 ** (1 + 7 * index / 4) for index in range(5)])


def test_episodes_of_runners_that_explore_least_are_reported() -> None:
    algorithm = made()
    algorithm.config = algorithm.config.copy(copy_frozen=False)
    shown = {}
    for runners in (1, 2, 6, 7):
        algorithm.config.num_env_runners = runners
        shown[runners] = [index for index in range(1, runners + 1) if algorithm.is_shown(index)]
    assert shown == {1: [1], 2: [2], 6: [5, 6], 7: [5, 6, 7]}
    algorithm.config.exploration_config = {"type": "EpsilonGreedy"}
    assert all(algorithm.is_shown(index) for index in range(1, 8))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"optimizer": {"num_replay_buffer_shards": -1}}, "num_replay_buffer_shards=-1, and needs a whole number that"),
        ({"optimizer": {"max_weight_sync_delay": 0.5}}, "max_weight_sync_delay=0.5, and needs .* that is 1 or more"),
        ({"optimizer": {"num_replay_shards": 2}}, "has 'num_replay_shards'; did you mean 'num_replay_buffer_shards'?"),
        ({"replay_buffer_config": {"type": "Nothing"}}, "there is no replay buffer 'Nothing': take 'EpisodeReplay"),
        ({"env": "Pendulum-v1"}, "ApexDQNConfig learns a value for each action of a Discrete space"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(**{**settings, "optimizer": settings.get("optimizer", {"num_replay_buffer_shards": 2})})


def several(name: str = "ApexDQN", **settings: Any) -> Any:
    """Return an algorithm with two policies, of which one does not move."""
    policies = {"left": (None, None, None, {}), "right": (None, None, None, {"lr": 0.0})}
    return made(
        name,
        env=make_multi_agent("CartPole-v1"),
        env_config={"num_agents": 2},
        multiagent={"policies": policies, "policy_mapping_fn": lambda agent, *_: ("left", "right")[agent]},
        **settings,
    )


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("settings", [{}, REMOTE], ids=["here", "shards"])
def test_several_policies_learn_each_from_what_it_did(settings: dict[str, Any]) -> None:
    algorithm = several(**settings)
    before = {policy: learner.weights.copy() for policy, learner in algorithm.learners.items()}
    for _ in range(3):
        result = algorithm.train()
    assert set(result["learners"]) == {"left", "right"}
    assert not np.array_equal(algorithm.learners["left"].weights, before["left"])
    assert np.array_equal(algorithm.learners["right"].weights, before["right"])
    algorithm.add_policy("third", policy_mapping_fn=lambda agent, *_: ("third", "right")[agent])
    before = algorithm.learners["third"].weights.copy()
    for _ in range(8):
        algorithm.train()
    assert not np.array_equal(algorithm.learners["third"].weights, before)
    algorithm.stop()


@pytest.mark.usefixtures("session")
@BOTH
@pytest.mark.parametrize("intensity", [2.0, None])
def test_all_that_runners_sample_is_kept(name: str, intensity: float | None) -> None:
    algorithm = made(name, **REMOTE, training_intensity=intensity)
    results = [algorithm.train() for _ in range(8)]
    assert rows_of(algorithm) == algorithm.env_steps_sampled >= 8 * 32
    assert algorithm.env_steps_trained > 0
    if intensity:
        assert algorithm.env_steps_trained <= intensity * algorithm.env_steps_sampled
    info = results[-1]["info"]
    assert info["replay_shard_0"]["draws"] > 0 and info["replay_shard_1"]["draws"] > 0
    report = results[-1]["learners"]["default_policy"]
    assert 0 <= report["policy_lag_min"] <= report["policy_lag"] <= report["policy_lag_max"]
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_it_learns_which_action_is_right_with_two_runners_and_two_shards() -> None:
    algorithm = made(**REMOTE, env=GuessTheAction, training_intensity=8.0, target_network_update_freq=64)
    best = 0.0
    for _ in range(150):
        best = max(best, algorithm.train()["episode_reward_mean"])
        if best > 0.95:
            break
    assert best > 0.95, "chance has 0.25"
    algorithm.stop()


def process_of_runner(algorithm: Any, number: int) -> int:
    """Return the id of a process of a runner."""
    process: int = kernel.get(algorithm.runners.actors()[number][1].apply.remote(lambda runner: os.getpid()))
    return process


def process_of_shard(algorithm: Any, number: int) -> int:
    """Return the id of a process of a shard."""
    process: int = kernel.get(algorithm.shards.actors()[number].process.remote())
    return process


def is_there(process: int) -> bool:
    """Return whether there is a process, and it is not one that only waits to be collected."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except OSError:
        return False


@pytest.mark.usefixtures("session")
def test_counts_are_right_after_runners_and_shards_were_killed() -> None:
    """`benchmarks.rllib_kills --only Apex` does so 30 times and more."""
    algorithm = made(**REMOTE, training_intensity=1.0)
    for _ in range(3):
        algorithm.train()
    killed = []
    for number, process_of in enumerate([process_of_runner, process_of_shard] * 2):
        killed.append(process_of(algorithm, number // 2))
        os.kill(killed[-1], signal.SIGKILL)
        for _ in range(4):
            algorithm.train()
    rows = rows_of(algorithm)
    info = algorithm.train()["info"]
    rows = rows_of(algorithm)
    assert rows + info["num_replay_rows_lost"] == algorithm.env_steps_sampled
    assert info["num_replay_shard_restarts"] == 2 and info["num_samples_dropped"] == 0
    assert algorithm.runners.num_healthy_runners == len(algorithm.shards.actors()) == 2
    left = [process_of(algorithm, number) for process_of in (process_of_runner, process_of_shard) for number in (0, 1)]
    assert not set(left) & set(killed)
    algorithm.stop()
    deadline = time.monotonic() + 20
    while any(map(is_there, [*killed, *left])):
        assert time.monotonic() < deadline, "a process is left"
        time.sleep(0.02)


def test_with_all_in_one_process_it_is_dqn() -> None:
    """Priorities, weights, the steps at which the target follows: all is that of DQN, to the last bit."""
    buffer = {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 200, "worker_side_prioritization": False}
    shared: dict[str, Any] = {
        **{name: value for name, value in SMALL.items() if name != "optimizer"},
        "num_env_runners": 0,
        "n_step": 1,
        "exploration_config": {"type": "EpsilonGreedy", "epsilon_schedule": [[0, 1.0], [200, 0.05]]},
        "epsilon": None,
        "replay_buffer_config": {**buffer, "alpha": 0.6, "beta": 0.4, "final_beta": 0.4},
        "training_intensity": 8.0,
        "target_network_update_freq": 40,
        "min_sample_timesteps_per_iteration": 64,
    }
    here = {"num_replay_buffer_shards": 0, "max_weight_sync_delay": 1}
    both = algorithm_class("DQN")(shared), algorithm_class("APEX")({**shared, "optimizer": here})
    for algorithm in both:
        for _ in range(5):  # more steps than the buffer holds
            algorithm.train()
        assert len(algorithm.replay) == 200
    dqn, apex = both
    assert dqn.steps_at_last_target == apex.steps_at_last_target > 200
    np.testing.assert_array_equal(dqn.learner.vector, apex.learner.vector)
    np.testing.assert_array_equal(dqn.replay.state()["priorities"], apex.replay.state()["priorities"])


@pytest.mark.usefixtures("session")
def test_shards_come_back_from_checkpoints(tmp_path: Path) -> None:
    algorithm = made(**REMOTE, store_buffer_in_checkpoints=True)
    for _ in range(3):
        algorithm.train()
    path, rows = algorithm.save(str(tmp_path / "checkpoint")), algorithm.env_steps_sampled
    algorithm.stop()
    other = made(**REMOTE, store_buffer_in_checkpoints=True)
    other.restore(path)
    assert rows_of(other) == rows
    other.train()
    other.stop()
