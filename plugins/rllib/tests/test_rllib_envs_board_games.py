"""Board games and the pole that is paid for at the end: their rules, opponents, and the way back to a state."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from kernel_rllib.envs.games.board_game import BoardGame, TwoPlayerBoardGame
from kernel_rllib.envs.games.cart_pole import CartPole
from kernel_rllib.envs.games.cart_pole_sparse_rewards import CartPoleSparseRewards
from kernel_rllib.envs.games.connect_four import RULES as CONNECT_FOUR
from kernel_rllib.envs.games.connect_four import ConnectFour, TwoPlayerConnectFour
from kernel_rllib.envs.games.tic_tac_toe import RULES as TIC_TAC_TOE
from kernel_rllib.envs.games.tic_tac_toe import TicTacToe, TwoPlayerTicTacToe, minimax
from kernel_rllib.errors import EnvError


def test_the_pole_falls_as_in_cart_pole_and_is_paid_for_at_the_end() -> None:
    usual, sparse = CartPole({"max_episode_steps": 200}), CartPoleSparseRewards()
    generator = np.random.default_rng(0)
    for seed in range(20):
        expected, _ = usual.reset(seed=seed)
        observed, _ = sparse.reset(seed=seed)
        total, ended = 0.0, False
        while not ended:
            np.testing.assert_allclose(observed["obs"], expected, rtol=1e-5, atol=1e-6)
            action = int(generator.integers(2))
            expected, reward, terminated, truncated, _ = usual.step(action)
            observed, paid, *ends, _ = sparse.step(action)
            total, ended = total + reward, terminated or truncated
            assert ends == [terminated, truncated] and paid == (total if ended else 0.0)


def test_the_pole_goes_back_to_a_state() -> None:
    env = CartPoleSparseRewards({"max_episode_steps": 3})
    env.reset(seed=1)
    env.step(0)
    state = env.get_state()
    first = [env.step(1), env.step(1)]
    assert first[1][1] == 3 and first[1][3]
    np.testing.assert_array_equal(env.set_state(state)["obs"], np.array(state[:4], np.float32))
    again = [env.step(1), env.step(1)]
    assert [step[1:] for step in again] == [step[1:] for step in first]
    np.testing.assert_array_equal(again[1][0]["obs"], first[1][0]["obs"])
    with pytest.raises(EnvError, match="^max_episode_steps is 0, but an episode has one step or more"):
        CartPoleSparseRewards({"max_episode_steps": 0})


@pytest.mark.parametrize("made", [TicTacToe, ConnectFour])
@pytest.mark.parametrize("opponent", [None, "random"])
def test_games_are_environments_as_gymnasium_wants_them(made: type[BoardGame], opponent: str | None) -> None:
    env = made({"opponent": opponent})
    env.action_space.seed(0)
    observed, _ = env.reset(seed=0)
    assert env.observation_space.contains(observed)
    if opponent is None:
        check_env(made(), skip_render_check=True, skip_close_check=True)


def test_all_that_follows_in_tic_tac_toe_is_known() -> None:
    found: Counter[str] = Counter()

    def play_all(position: tuple[int, ...], moves: int) -> None:
        for action in TIC_TAC_TOE.legal(position):
            after, won, over = TIC_TAC_TOE.play(position, action)
            if over:
                found[("first" if moves % 2 == 0 else "second") if won else "draw"] += 1
            else:
                play_all(after, moves + 1)

    begin, _, _ = TIC_TAC_TOE.play(TIC_TAC_TOE.begin(), 4)
    play_all(begin, 1)
    assert found == {"first": 15648, "second": 5616, "draw": 4608}
    assert minimax(TIC_TAC_TOE.begin()) == 0


def test_stones_fall_and_four_in_a_row_win() -> None:
    def played(*moves: int) -> Any:
        position, won = CONNECT_FOUR.begin(), False
        for number, move in enumerate(moves):
            position, won, over = CONNECT_FOUR.play(position, move)
            assert over == won and won <= (number == len(moves) - 1)
        return position, won

    assert played(3, 2, 3, 2, 3, 2, 3)[1], "four in a column"
    assert played(0, 0, 1, 1, 2, 2, 3)[1], "four in a row"
    assert played(0, 1, 1, 2, 2, 3, 2, 3, 3, 6, 3)[1], "four along a diagonal"
    assert played(6, 5, 5, 4, 4, 3, 4, 3, 3, 0, 3)[1], "four along the other"
    full, won = played(0, 0, 0, 0, 0, 0)
    assert not won and CONNECT_FOUR.legal(full) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(
        EnvError, match=r"^action 0 may not be taken now, but \[1, 2, 3, 4, 5, 6\]: observations say so"
    ):
        CONNECT_FOUR.play(full, 0)


@pytest.mark.parametrize(("made", "moves"), [(TwoPlayerTicTacToe, 9), (TwoPlayerConnectFour, 42)])
def test_two_agents_take_turns_and_see_the_board_from_their_side(made: type[TwoPlayerBoardGame], moves: int) -> None:
    env = made()
    observed, _ = env.reset()
    rules, generator, earned = env.rules, np.random.default_rng(2), Counter[str]()
    over, turn, before = False, 0, None
    while not over:
        (agent,) = observed
        assert agent == f"player_{turn}"
        seen, mask = observed[agent]["obs"].reshape(2, -1), observed[agent]["action_mask"]
        assert env.observation_space.contains(observed[agent])
        if before is not None:
            assert before[0].sum() + 1 == seen[1].sum() and (before[1] == seen[0]).all()
        before = seen
        observed, rewards, terminateds, _, _ = env.step({agent: int(generator.choice(np.flatnonzero(mask)))})
        earned.update(rewards)
        assert sum(rewards.values()) == 0
        over, turn = terminateds["__all__"], 1 - turn
    assert set(observed) == set(env.agents) and len(rules.begin()) == moves


def test_an_illegal_move_loses_or_is_an_error() -> None:
    env = TwoPlayerTicTacToe()
    env.reset()
    env.step({"player_0": 0})
    observed, rewards, terminateds, _, _ = env.step({"player_1": 0})
    assert (
        rewards == {"player_1": -1.0, "player_0": 1.0} and terminateds["__all__"] and set(observed) == set(env.agents)
    )
    strict = TwoPlayerTicTacToe({"illegal_moves_lose": False})
    strict.reset()
    strict.step({"player_0": 0})
    with pytest.raises(EnvError, match="^action 0 may not be taken now"):
        strict.step({"player_1": 0})


def play(env: BoardGame, games: int) -> list[float]:
    """Return the outcomes of games by the first move that may be made."""
    found = []
    for game in range(games):
        observed, _ = env.reset(seed=game)
        over = False
        while not over:
            observed, reward, over, _, _ = env.step(int(observed["action_mask"].argmax()))
        found.append(reward)
    return found


def test_opponents_answer_and_begin_every_second_game() -> None:
    assert set(play(TicTacToe({"opponent": "perfect"}), 40)) <= {-1.0, 0.0}
    assert 1.0 in play(TicTacToe({"opponent": "random"}), 20)
    assert np.mean(play(ConnectFour({"opponent": "careful"}), 40)) < np.mean(
        play(ConnectFour({"opponent": "random"}), 40)
    )
    env = TicTacToe({"opponent": "random"})
    assert [env.reset(seed=1)[0]["obs"].sum() for _ in range(4)] == [0, 1, 0, 1]
    always = TicTacToe({"opponent": "random", "opponent_begins": True})
    assert [always.reset(seed=1)[0]["obs"].sum() for _ in range(2)] == [1, 1]
    assert always.search_env().reset()[0]["obs"].sum() == 0
    with pytest.raises(
        EnvError, match="^TicTacToe has no opponent 'god': there are perfect, random, or None for an agent"
    ):
        TicTacToe({"opponent": "god"})
