"""The example of self-play: who plays whom, and that copies join which do not learn."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kernel_rllib.examples.self_play_connect_four import AgainstThePast, main, make_config


def test_main_plays_each_opponent_alike_often_and_moves_first_in_every_second_match() -> None:
    mapping = AgainstThePast(("random", "main_v1"))
    pairs = [
        tuple(mapping(agent, SimpleNamespace(episode_id=str(number))) for agent in ("player_0", "player_1"))
        for number in range(4)
    ]
    assert pairs == [("main", "random"), ("random", "main"), ("main", "main_v1"), ("main_v1", "main")]


def test_a_copy_joins_that_does_not_learn_any_more() -> None:
    config = make_config(seed=1, threshold=0.3).training(train_batch_size=256, minibatch_size=128, num_epochs=1)
    algorithm = config.build()
    first = algorithm.train()
    assert first["win_rate"] >= 0.3 and first["league_size"] == 2
    kept = algorithm.get_policy("main_v1").get_weights()
    algorithm.train()
    now = algorithm.get_policy("main_v1").get_weights()
    assert all((now[name] == value).all() for name, value in kept.items())
    assert any((value != kept[name]).any() for name, value in algorithm.get_policy("main").get_weights().items())
    assert "main_v1" in algorithm.train()["policy_reward_mean"]
    algorithm.stop()


def test_the_program_says_how_many_policies_there_are() -> None:
    with pytest.raises(RuntimeError, match="there are 2 policies, and should have become 8"):
        main(["--seed", "1", "--stop-iters", "1", "--win-rate-threshold", "1.1", "--as-test"])
