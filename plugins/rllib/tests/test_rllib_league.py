"""The league as a state machine: who is kept and when, who meets whom and how often, and that it can be repeated."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kernel_rllib.league.league import League, LeagueSettings, Match, Reset, Snapshot
from kernel_rllib.league.matchmaking import Matchmaking
from kernel_rllib.league.prioritising import opponent_weights

SMALL = LeagueSettings(random_policies=2, league_exploiters=1, main_exploiters=1, least_matches=4)


def stream(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def won(one: str, other: str, count: int) -> list[Match]:
    return [Match(one, other, 1.0)] * count


def test_a_league_begins_with_one_main_player_exploiters_and_some_who_do_anything() -> None:
    league = League.begin(LeagueSettings())
    assert league.learning("main_0") == ["main_0"] and len(league.learning()) == 9
    assert league.kept() == ["league_exploiter_0", "main_exploiter_0"]
    assert league.learning("league_exploiter") == [f"league_exploiter_{number}" for number in range(1, 5)]


def test_a_copy_is_kept_of_who_wins_enough_of_enough_matches() -> None:
    league = League.begin(SMALL)
    assert league.take_in(won("main_0", "league_exploiter_1", 3), stream()) == []
    assert league.take_in(won("main_0", "league_exploiter_1", 1), stream()) == [Snapshot("main_0", "main_1", False)]
    assert league.kept("main_1") == ["main_1"]
    assert league.win_rate("main_1", "league_exploiter_1") == league.win_rate("main_0", "league_exploiter_1") == 1.0
    assert league.win_rate("league_exploiter_1", "main_1") == 0.0
    assert league.take_in(won("main_0", "main_1", 3), stream()) == [], "it counts anew"
    lost = [Match("main_0", "main_1", 0.0)] * 40
    assert league.take_in(lost, stream()) == [], "copies are not kept once more"


def test_draws_are_half_a_win_and_matches_against_oneself_say_nothing() -> None:
    league = League.begin(SMALL)
    assert league.take_in([Match("main_0", "main_exploiter_1", 0.5)] * 50, stream()) == []
    assert league.win_rate("main_0", "main_exploiter_1") == pytest.approx(0.5)
    league.take_in(won("main_0", "main_0", 50) + won("main_0", "who", 50), stream())
    assert league.players["main_0"].matches == 50
    for _ in range(500):
        league.take_in([Match("main_0", "main_exploiter_1", 0.0)], stream())
    assert league.win_rate("main_0", "main_exploiter_1") < 0.01, "newer matches count more"


def test_copies_are_kept_anyway_after_many_matches_and_exploiters_may_begin_anew() -> None:
    rules = LeagueSettings(0, 1, 1, most_matches=10, reset_main_exploiter=1.0, keep_training=1.0)
    league = League.begin(rules)
    done = league.take_in([Match("main_exploiter_0", "main_0", 0.2)] * 10, stream())
    assert done == [
        Snapshot("main_0", "main_1", False),
        Snapshot("main_exploiter_0", "main_exploiter_1", True),
        Reset("main_exploiter_0"),
    ]
    assert league.learning("main_exploiter") == ["main_exploiter_0", "main_exploiter_1"]
    assert league.win_rate("main_exploiter_0", "main_0") == 0.5, "nothing is known of one who began anew"
    assert league.win_rate("main_exploiter_1", "main_0") == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [("squared", [16 / 21, 4 / 21, 1 / 21]), ("linear", [4 / 7, 2 / 7, 1 / 7]), ("variance", [0.0, 0.5714, 0.4286])],
)
def test_opponents_are_met_by_how_hard_they_are(weighting: Any, expected: list[float]) -> None:
    assert opponent_weights([0.0, 0.5, 0.75], weighting) == pytest.approx(expected, abs=1e-4)
    assert opponent_weights([1.0, 1.0], weighting) == [0.5, 0.5]


def test_matches_are_as_frequent_as_the_rules_say() -> None:
    league, generator = League.begin(SMALL), stream(1)
    league.take_in(won("main_0", "league_exploiter_1", 4), generator)
    league.take_in(won("main_0", "league_exploiter_0", 100)[:3], generator)
    found = Counter(league.draw_match(generator) for _ in range(6000))
    by_player = Counter[str]()
    for (player, _), count in found.items():
        by_player[player] += count
    assert by_player["league_exploiter_1"] / 6000 == pytest.approx(0.33, abs=0.02)
    assert by_player["main_exploiter_1"] / 6000 == pytest.approx(0.33, abs=0.02)
    assert found["main_exploiter_1", "main_0"] / by_player["main_exploiter_1"] == pytest.approx(0.5, abs=0.04)
    assert found["main_exploiter_1", "main_1"] == by_player["main_exploiter_1"] - found["main_exploiter_1", "main_0"]
    assert found["main_0", "main_0"] / by_player["main_0"] == pytest.approx(0.5, abs=0.04)
    kept = ["league_exploiter_0", "main_exploiter_0", "main_1"]
    assert {other for player, other in found if player == "league_exploiter_1"} == set(kept)
    weights = opponent_weights([league.win_rate("league_exploiter_1", name) for name in kept], "squared")
    shares = [found["league_exploiter_1", name] / by_player["league_exploiter_1"] for name in kept]
    assert shares == pytest.approx(weights, abs=0.04) and weights[2] > weights[0]
    alone = League.begin(LeagueSettings(0, 0, 0))
    assert {alone.draw_match(generator) for _ in range(20)} == {("main_0", "main_0")}


def test_a_league_goes_on_from_its_state() -> None:
    league, other = League.begin(SMALL), League(SMALL)
    league.take_in(won("main_0", "league_exploiter_1", 5), stream())
    other.set_state(league.state())
    assert other == league
    assert [other.draw_match(stream(3)) for _ in range(5)] == [league.draw_match(stream(3)) for _ in range(5)]


def test_both_agents_of_an_episode_are_told_the_same_match_and_sides_change() -> None:
    league = League.begin(SMALL)
    mapping = Matchmaking(5, ["a", "b"], SMALL, league.state())
    pairs = []
    for number in range(400):
        episode = SimpleNamespace(episode_id=str(number))
        pairs.append((mapping("a", episode, worker=None), mapping("b", episode)))
        assert pairs[-1][0] == mapping("a", episode)
    learners = Counter(
        "a" if one == "main_exploiter_1" else "b" for one, other in pairs if "main_exploiter_1" in (one, other)
    )
    assert 0.3 < learners["a"] / learners.total() < 0.7
    assert len(set(pairs)) > 4
