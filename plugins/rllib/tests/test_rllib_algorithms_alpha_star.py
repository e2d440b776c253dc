"""AlphaStar: what the league says is done, matches are told to it, and it repeats bit by bit without runners."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.alpha_star import AlphaStar, AlphaStarConfig
from kernel_rllib.envs.games.multi_agent_cart_pole import MultiAgentCartPole
from kernel_rllib.envs.games.rock_paper_scissors import RockPaperScissors
from kernel_rllib.envs.games.tic_tac_toe import TwoPlayerTicTacToe
from kernel_rllib.errors import ConfigError
from kernel_rllib.league.league import Match

LEAGUE = {
    "num_random_policies": 2,
    "num_learning_league_exploiters": 1,
    "num_learning_main_exploiters": 1,
    "max_matches_for_new_snapshot": 8,
    "prob_reset_main_exploiter": 1.0,
}
SMALL = {
    "env": RockPaperScissors,
    "env_config": {"num_rounds": 4},
    "seed": 1,
    "num_env_runners": 0,
    "num_envs": 4,
    "rollout_fragment_length": 8,
    "train_batch_size": 64,
    "min_time_s_per_iteration": 0,
    "model": {"fcnet_hiddens": [4]},
    "league_builder_config": LEAGUE,
}


@pytest.fixture
def made() -> Iterator[Any]:
    algorithms = []

    def make(**settings: Any) -> AlphaStar:
        algorithms.append(AlphaStar({**SMALL, **settings}))
        return algorithms[-1]

    yield make
    for algorithm in algorithms:
        algorithm.stop()


def weights(algorithm: AlphaStar) -> dict[str, bytes]:
    return {name: policy.learner.weights.tobytes() for name, policy in algorithm.policies.items()}


def test_players_are_kept_and_do_not_learn_any_more(made: Any) -> None:
    algorithm = made()
    first = weights(algorithm)
    assert set(algorithm.scripted) == {"league_exploiter_0", "main_exploiter_0"}
    assert set(first) == {"main_0", "league_exploiter_1", "main_exploiter_1"}
    result = algorithm.train()
    while not algorithm.league.kept("main_1"):
        result = algorithm.train()
    kept = weights(algorithm)["main_1"]
    for _ in range(3):
        result = algorithm.train()
    now = weights(algorithm)
    assert now["main_1"] == kept != now["main_0"] != first["main_0"]
    assert result["league"]["num_players"] == len(algorithm.league.players) == len(now) + 2
    assert set(result["league"]["main_win_rates"]) == set(algorithm.league.players) - {"main_0"}
    assert algorithm.config.policies_to_train == algorithm.league.learning()


def test_a_player_that_begins_anew_is_as_it_was_at_first(made: Any) -> None:
    algorithm = made()
    first = weights(algorithm)["main_exploiter_1"]
    algorithm.train()
    assert weights(algorithm)["main_exploiter_1"] != first
    version = algorithm.policies["main_exploiter_1"].learner.version
    algorithm._matches = [Match("main_exploiter_1", "main_0", 1.0)] * 40
    algorithm.hand_over_update()
    assert weights(algorithm)["main_exploiter_1"] == first
    assert algorithm.policies["main_exploiter_1"].learner.version > version, "runners must get it"
    assert weights(algorithm)["main_exploiter_2"] != first


def test_matches_are_told_as_they_ended(made: Any) -> None:
    algorithm = made(env=TwoPlayerTicTacToe, env_config={})
    told: list[Match] = []
    usual = algorithm.league.take_in
    algorithm.league.take_in = lambda matches, stream: told.extend(matches) or usual(matches, stream)
    result = algorithm.train()
    assert len(told) == result["episodes_this_iter"] > 0
    assert {match.outcome for match in told} <= {0.0, 0.5, 1.0} and any(match.one != match.other for match in told)


def test_without_runners_the_same_seed_gives_the_same_bits_and_after_a_checkpoint_too(
    made: Any, tmp_path: Path
) -> None:
    whole, first, other = made(), made(), made()
    for _ in range(6):
        whole.train()
    for _ in range(4):
        first.train()
    assert len(first.league.players) > 5
    other.restore(first.save(str(tmp_path)))
    assert other.league == first.league and weights(other) == weights(first)
    for _ in range(2):
        other.train()
    assert weights(other) == weights(whole) and other.league == whole.league


@pytest.mark.usefixtures("session")
def test_runners_that_never_wait_have_the_players_that_are_kept(made: Any) -> None:
    algorithm = made(num_env_runners=2, num_envs_per_env_runner=2, num_envs=None)
    for _ in range(6):
        result = algorithm.train()
    kept = set(algorithm.league.kept()) - set(algorithm.scripted)
    assert kept and result["num_healthy_workers"] == 2
    assert kept & set(result["policy_reward_mean"]), "they are met"
    algorithm.stop()


def test_the_mixture_of_the_main_player_stays_near_a_third_each(made: Any) -> None:
    algorithm = made(
        env_config={"num_rounds": 10}, num_envs=16, rollout_fragment_length=20, train_batch_size=640, lr=2e-3,
        gamma=0.0, num_epochs=2, minibatch_size=128, entropy_coeff=0.02, model={"fcnet_hiddens": [16]},
        league_builder_config={**LEAGUE, "num_random_policies": 0, "max_matches_for_new_snapshot": 100},
    )  # fmt: skip
    for _ in range(15):
        algorithm.train()
    actions = algorithm.compute_actions(dict.fromkeys(range(900), 3), policy_id="main_0", explore=True)
    shares = np.bincount(np.array(list(actions.values()), int), minlength=3) / 900
    assert np.abs(shares - 1 / 3).max() < 0.2


def test_defaults_are_those_of_rllib() -> None:
    given = AlphaStarConfig().league_builder_config
    assert (given.num_random_policies, given.num_learning_league_exploiters) == (2, 4)
    assert (given.num_learning_main_exploiters, given.win_rate_threshold_for_new_snapshot) == (4, 0.9)
    assert (given.keep_new_snapshot_training_prob, given.prob_league_exploiter_match) == (0.0, 0.33)
    assert (given.prob_main_exploiter_match, given.prob_main_exploiter_playing_against_learning_main) == (0.33, 0.5)
    assert AlphaStarConfig().min_time_s_per_iteration == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env": "CartPole-v1", "env_config": {}}, "players meet two by two, and the environment has no agents"),
        ({"env": MultiAgentCartPole, "env_config": {"num_agents": 3}}, r"the environment has the agents \[0, 1, 2\]"),
        ({"multiagent": {"policies": {"one": None}}}, "policies are the players of the league, and one"),
        ({"league_builder_config": {"type": "Own"}}, "type is 'Own', and there is one league, 'AlphaStarLea"),
        ({"league_builder_config": {"num_random_policies": 3}}, "num_random_policies=3 is odd: exploiters of"),
        ({"league_builder_config": {"prob_league_exploiter_match": 0.8}}, "are more than 1 together; the"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AlphaStar({**SMALL, **settings})
