"""Ape-X QMIX: the steps of QMIX, on episodes that runners bring and shards of replay keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.apex_qmix import ApexQMIX, ApexQMIXConfig
from kernel_rllib.algorithms.experience import ExperienceWork
from kernel_rllib.algorithms.qmix import QMIX, QMIXConfig
from kernel_rllib.envs.games.two_step_game import grouped_two_step_game
from kernel_rllib.errors import ConfigError, DataError
from kernel_rllib.exploration.groups import OfEachAgent
from kernel_rllib.replay.episodes import EpisodeReplay, pieces_of
from kernel_rllib.replay.pieces import PieceReplay, Pieces
from kernel_rllib.training.registry import algorithm_class

SMALL: dict[str, Any] = {
    "env": grouped_two_step_game,
    "num_env_runners": 0,
    "num_envs_per_env_runner": 4,
    "rollout_fragment_length": 4,
    "train_batch_size": 16,
    "num_steps_sampled_before_learning_starts": 16,
    "target_network_update_freq": 32,
    "model": {"lstm_cell_size": 6},
    "min_time_s_per_iteration": 0,
    "min_sample_timesteps_per_iteration": 32,
    "training_intensity": 2.0,
    "seed": 1,
}
HERE = {"optimizer": {"num_replay_buffer_shards": 0}}
REMOTE = {"num_env_runners": 2, "optimizer": {"num_replay_buffer_shards": 2, "max_weight_sync_delay": 32}}


def made(**settings: Any) -> ApexQMIX:
    """Return a small algorithm; without runners and shards in processes of their own, unless they are asked for."""
    return ApexQMIX({**SMALL, **HERE, **settings})


def test_all_names_lead_to_it() -> None:
    for name in ("APEX_QMIX", "ApexQMIX"):
        assert algorithm_class(name) is ApexQMIX
    config = ApexQMIXConfig()
    assert (config.num_env_runners, config.train_batch_size, config.num_replay_buffer_shards) == (32, 512, 4)
    assert config.exploration_config == {"type": "PerWorkerEpsilonGreedy"} and config.mixer == "qmix"


def test_runners_make_episodes_of_what_they_sampled() -> None:
    algorithm = made()
    runner = algorithm.runners.local
    assert runner is not None
    policies = {"default_policy": (algorithm.config, algorithm.spaces)}
    runner.work = None
    sample = runner.sample(8)
    fragment = sample.fragments["default_policy"]
    (experience,) = ExperienceWork(ApexQMIX, policies, 1)(runner, sample).made.values()
    expected = list(pieces_of(fragment, 999_999))
    assert experience.rows.count == sum(piece.steps for piece in expected) > 0
    for here, there in zip(experience.rows.pieces, expected, strict=True):  # type: ignore[attr-defined]
        assert here.columns.keys() == there.columns.keys()
        for name, column in there.columns.items():
            np.testing.assert_array_equal(here.columns[name], column)
    assert experience.errors is None
    algorithm.stop()


def test_an_update_is_the_one_of_qmix() -> None:
    shared = {name: value for name, value in SMALL.items() if name != "rollout_fragment_length"}
    ours, theirs = made(), QMIX({**shared, "replay_buffer_config": {"capacity": 1000}})
    assert ours.runners.local is not None
    fragment = ours.runners.local.sampler.sample(8)["default_policy"]
    pieces = list(pieces_of(fragment, 999_999))
    ours.replay.add(Pieces(pieces))
    theirs.replay.add(pieces)
    vector = np.random.default_rng(0).normal(size=ours.learner.vector.size).astype(np.float32)
    for algorithm in (ours, theirs):
        algorithm.learner.vector[...] = vector
        algorithm.target.vector[...] = vector / 2
        algorithm.draws = np.random.default_rng(7)
    mine, others = ours.learn_once(), theirs.learn_once()
    assert mine["total_loss"] == others["total_loss"] > 0
    np.testing.assert_array_equal(ours.learner.vector, theirs.learner.vector)
    ours.stop(), theirs.stop()


def test_without_runners_a_run_repeats_and_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    straight, again = made(store_buffer_in_checkpoints=True), made(store_buffer_in_checkpoints=True)
    for algorithm in (straight, again):
        algorithm.train()
        assert algorithm.train()["info"]["learner"]
    np.testing.assert_array_equal(straight.learner.vector, again.learner.vector)
    path = straight.save(str(tmp_path / "kept"))
    resumed = ApexQMIX.from_checkpoint(path)
    assert len(resumed.replay) == len(straight.replay) == straight.env_steps_sampled
    np.testing.assert_array_equal(resumed.target.vector, straight.target.vector)
    for algorithm in (straight, again, resumed):
        algorithm.stop()


@pytest.mark.usefixtures("session")
def test_episodes_of_runners_are_kept_in_shards_and_learned_from(tmp_path: Path) -> None:
    algorithm = made(**REMOTE, store_buffer_in_checkpoints=True)
    before = algorithm.learner.vector.copy()
    for _ in range(3):
        result = algorithm.train()
    info = result["info"]
    assert np.isfinite(info["learner"]["default_policy"]["learner_stats"]["total_loss"])
    assert info["replay_shard_0"]["draws"] and info["replay_shard_1"]["draws"]
    assert not np.array_equal(before, algorithm.learner.vector)
    path, steps = algorithm.save(str(tmp_path / "kept")), algorithm.env_steps_sampled
    assert algorithm.shards is not None
    algorithm.shards.wait()
    assert algorithm.shards.rows("default_policy") == steps
    algorithm.stop()
    other = made(**REMOTE, store_buffer_in_checkpoints=True)
    other.restore(path)
    assert other.shards is not None and other.shards.rows("default_policy") == steps
    assert other.train()["timesteps_total"] > steps
    other.stop()


def test_each_runner_has_an_epsilon_of_its_own() -> None:
    algorithm = made()
    exploration = algorithm.make_exploration()
    assert isinstance(exploration, OfEachAgent)
    epsilons = [exploration.of_runner(index, 4).info(0)["cur_epsilon"] for index in range(1, 5)]
    assert epsilons == sorted(epsilons, reverse=True) and epsilons[0] == pytest.approx(0.4)
    algorithm.stop()


def test_episodes_are_drawn_alike_and_never_of_nothing() -> None:
    replay = PieceReplay(100)
    with pytest.raises(DataError, match="the replay buffer is empty"):
        replay.sample(4, np.random.default_rng(0))
    algorithm = made()
    assert algorithm.runners.local is not None
    pieces = list(pieces_of(algorithm.runners.local.sampler.sample(8)["default_policy"], 999_999))
    replay.add(Pieces(pieces), np.ones(len(pieces)))
    plain = EpisodeReplay(100)
    plain.add(pieces)
    replay.update_priorities(np.array([0]), np.array([1e9]))
    drawn, expected = (each.sample(8, np.random.default_rng(3)) for each in (replay, plain))
    np.testing.assert_array_equal(drawn.obs, expected.obs)
    other = PieceReplay(100)
    other.set_state(replay.state())
    assert len(other) == len(replay) == 32
    algorithm.stop()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_step": 3}, "n_step=3, but targets of groups are of one step; leave it at 1"),
        (
            {"replay_buffer_config": {"type": "PrioritizedEpisodeReplayBuffer"}},
            "replay_buffer_config asks for more than its capacity, but whole episodes are replayed",
        ),
        ({"optimizer": {"num_replay_buffer_shards": -1}}, "optimizer has num_replay_buffer_shards=-1, and needs a"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        made(**settings)
    assert message in str(raised.value)
    assert issubclass(ApexQMIXConfig, QMIXConfig)
