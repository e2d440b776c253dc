"""Games of OpenSpiel, without that library: what players see and earn, what chance does, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs.open_spiel import OpenSpielEnv
from kernel_rllib.errors import EnvError


class Game:
    """Two players say 0, 1 or 2, by turns or at once, in two rounds; chance says before which may not be said.

    Each gets what it says, and the other loses it.
    """

    def __init__(self, at_once: bool = False, **type_of_game: Any) -> None:
        self.at_once = at_once
        dynamics = f"Dynamics.{'SIMULTANEOUS' if at_once else 'SEQUENTIAL'}"
        usual = {"dynamics": dynamics, "provides_observation_tensor": True, "provides_information_state_tensor": True}
        self.type = SimpleNamespace(short_name="numbers", **{**usual, **type_of_game})

    def get_type(self) -> Any:
        return self.type

    def num_players(self) -> int:
        return 2

    def num_distinct_actions(self) -> int:
        return 3

    def observation_tensor_shape(self) -> list[int]:
        return [1, 2]

    def information_state_tensor_shape(self) -> list[int]:
        return [3]

    def new_initial_state(self) -> Any:
        return Position(self)


class Position:
    """Where a game of numbers is."""

    def __init__(self, game: Game) -> None:
        self.game, self.forbidden, self.said = game, None, []  # type: ignore[var-annotated]
        self.earned = [0.0, 0.0]

    def is_chance_node(self) -> bool:
        return self.forbidden is None

    def chance_outcomes(self) -> Any:
        return [(0, 0.5), (2, 0.5)]

    def is_simultaneous_node(self) -> bool:
        return self.game.at_once and not self.is_chance_node() and not self.is_terminal()

    def is_terminal(self) -> bool:
        return len(self.said) == 4

    def current_player(self) -> int:
        return -1 if self.is_chance_node() else len(self.said) % 2

    def legal_actions(self, player: int) -> list[int]:
        return [action for action in range(3) if action != self.forbidden]

    def apply_action(self, action: int) -> None:
        if self.is_chance_node():
            self.forbidden = action
            return
        assert action != self.forbidden
        player = len(self.said) % 2
        self.said.append(action)
        self.earned[player] += action
        self.earned[1 - player] -= action

    def apply_actions(self, actions: list[int]) -> None:
        for action in actions:
            self.apply_action(action)

    def returns(self) -> list[float]:
        return self.earned

    def observation_tensor(self, player: int) -> list[float]:
        return [len(self.said), player]

    def information_state_tensor(self, player: int) -> list[float]:
        return [len(self.said), player, 7]

    def __str__(self) -> str:
        return f"said: {self.said}"


def test_players_take_turns_and_rewards_add_up_to_returns() -> None:
    env = OpenSpielEnv(Game(), action_masks=True)
    seen, _ = env.reset(seed=0)
    earned = np.zeros(2)
    for turn in range(4):
        assert list(seen) == [turn % 2] and seen[turn % 2]["obs"].tolist() == [turn, turn % 2]
        assert seen[turn % 2]["action_mask"].tolist() == [float(action != env.state.forbidden) for action in range(3)]
        seen, rewards, ends, cuts, _ = env.step({turn % 2: 1})
        earned += [rewards[0], rewards[1]]
        assert rewards == {turn % 2: 1.0, 1 - turn % 2: -1.0}
        assert ends["__all__"] == (turn == 3) and not cuts["__all__"]
    assert seen == {} and earned.tolist() == env.state.returns() and env.render() == "said: [1, 1, 1, 1]"


def test_players_act_at_once() -> None:
    env = OpenSpielEnv(Game(at_once=True))
    seen, _ = env.reset(seed=0)
    assert {player: row.tolist() for player, row in seen.items()} == {0: [0, 0], 1: [0, 1]}
    other = 2 - env.state.forbidden
    seen, rewards, ends, _, _ = env.step({0: other, 1: 1})
    assert rewards == {0: other - 1.0, 1: 1.0 - other} and set(seen) == {0, 1} and not ends["__all__"]
    assert env.step({0: 1, 1: 1})[2] == {0: True, 1: True, "__all__": True}


def test_an_action_that_may_not_be_taken_becomes_another_and_costs_something() -> None:
    found = set()
    for seed in range(20):
        env = OpenSpielEnv(Game(), illegal_action_penalty=0.25)
        env.reset(seed=seed)
        forbidden = env.state.forbidden
        _, rewards, _, _, _ = env.step({0: forbidden})
        said = env.state.said[0]
        assert said != forbidden and rewards == {0: said - 0.25, 1: float(-said)}
        found.add((forbidden, said))
        env.reset(seed=seed)
        assert env.state.forbidden == forbidden, "chance draws by the seed"
    assert found == {(0, 1), (0, 2), (2, 0), (2, 1)}


def test_players_see_what_they_know_where_a_game_shows_nothing_else() -> None:
    env = OpenSpielEnv(Game(provides_observation_tensor=False))
    assert env.reset(seed=0)[0][0].tolist() == [0, 0, 7]


@pytest.mark.parametrize(
    ("game", "message"),
    [
        (object(), "^OpenSpielEnv got object, which has no num_players, num_distinct_actions, new_initial_state, get_"),
        (Game(dynamics="Dynamics.MEAN_FIELD"), r"^numbers is a game of a crowd \(mean field\), and agents are single"),
        (Game(provides_observation_tensor=False, provides_information_state_tensor=False), "^numbers shows its"),
    ],
)  # fmt: skip
def test_what_can_not_be_played_is_refused(game: Any, message: str) -> None:
    with pytest.raises(EnvError, match=message):
        OpenSpielEnv(game)


@pytest.mark.parametrize("at_once", [False, True])
def test_an_algorithm_learns_in_them(at_once: bool) -> None:
    config = PPOConfig().environment(lambda _: OpenSpielEnv(Game(at_once)))
    config.env_runners(num_env_runners=0, num_envs=2).training(train_batch_size=64, minibatch_size=32, num_epochs=1)
    algorithm = config.build()
    result = algorithm.train()
    assert np.isfinite(result["episode_reward_mean"]) and result["num_env_steps_sampled"] >= 64
    algorithm.stop()
