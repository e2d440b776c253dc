"""Searches: trees are those of the paper, tree by tree, and find the best moves where these are known."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from kernel_rllib.envs.games.cart_pole_sparse_rewards import CartPoleSparseRewards
from kernel_rllib.envs.games.tic_tac_toe import RULES, TicTacToe, minimax, value_of_move
from kernel_rllib.errors import EnvError
from kernel_rllib.search.searching import SearchSettings, dirichlet, search
from kernel_rllib.search.simulation import EnvSimulator, Followed, State, players_of, search_env_of, state_of
from kernel_rllib.search.trees import tree_policy, with_noise
from kernel_rllib.spaces.flatten import Flattener
from kernel_rllib.testing.reference import alpha_zero

ACTIONS = 3


def drawn(state: tuple[int, ...]) -> np.random.Generator:
    return np.random.default_rng([7, *state])


def predict(state: tuple[int, ...]) -> tuple[list[float], float]:
    """Return probabilities, of which some are 0, and a value, which are noise but always the same for a state."""
    generator = drawn((*state, 9))
    shares = generator.random(ACTIONS) * (generator.random(ACTIONS) < 0.7)
    shares[generator.integers(ACTIONS)] += 0.5
    return (shares / shares.sum()).tolist(), float(generator.normal())


def follow(state: tuple[int, ...], action: int) -> tuple[tuple[int, ...], float, bool]:
    after = (*state, action)
    generator = drawn(after)
    return after, float(generator.normal()), len(after) > 5 or bool(generator.random() < 0.2)


class RandomGames:
    """A game that is noise: its states are the actions until then, and rows are states padded with -1."""

    def follow(self, states: Any, actions: Any) -> Followed:
        found = [follow(state.env, action) for state, action in zip(states, actions.tolist(), strict=True)]
        rows = np.array([[*state, *[-1] * (8 - len(state))] for state, _, _ in found]).reshape(-1, 8)
        return Followed([State(state) for state, _, _ in found], rows, np.array([reward for _, reward, _ in found]),
                        np.array([ended for _, _, ended in found], bool))  # fmt: skip


def of_rows(rows: Any) -> list[tuple[int, ...]]:
    return [tuple(number for number in row if number >= 0) for row in rows.tolist()]


def evaluate(rows: Any) -> tuple[Any, Any]:
    priors, values = zip(*(predict(state) for state in of_rows(rows)), strict=True)
    with np.errstate(divide="ignore"):
        return np.log(np.array(priors)), np.array(values)


@pytest.mark.parametrize("players", [1, 2])
@pytest.mark.parametrize("simulations", [1, 2, 60])
def test_trees_of_many_games_are_those_of_the_paper_each(players: int, simulations: int) -> None:
    settings = SearchSettings(simulations=simulations, exploration=1.3, exponent=1.0, players=players)
    states = [(number % 3, number % 2, 0) for number in range(6)]
    rows = np.array([[*state, *[-1] * 5] for state in states])
    legal = lambda rows: np.array([predict(state)[0] for state in of_rows(rows)]) > 0
    found, values = search(settings, [State(state) for state in states], rows, legal, evaluate, RandomGames())
    for place, state in enumerate(states):
        visits = alpha_zero.root_visits(state, simulations, 1.3, players, predict, follow)
        np.testing.assert_allclose(found[place], np.array(visits) / simulations, atol=1e-12)
        assert values[place] == predict(state)[1]


MOVES = [[], [0], [4], [1], [0, 4, 8], [0, 1], [4, 1], [4, 0, 8], [0, 8, 6], [1, 4, 8], [0, 4, 1, 2], [2, 4, 6, 3]]


def positions() -> list[tuple[int, ...]]:
    """Return the positions after `MOVES`."""
    found = []
    for moves in MOVES:
        position = RULES.begin()
        for move in moves:
            position, _, over = RULES.play(position, move)
            assert not over
        found.append(position)
    return found


def test_many_simulations_find_a_move_without_a_mistake_by_a_network_that_knows_nothing() -> None:
    env = TicTacToe()
    flat = Flattener(env.observation_space)
    seen = [env.set_state(position) for position in positions()]
    rows = flat.rows({name: np.stack([one[name] for one in seen]) for name in seen[0]})
    simulator = EnvSimulator(search_env_of(env), env.observation_space, flat.rows)
    settings = SearchSettings(simulations=800, exploration=0.3, exponent=1.0, players=2)
    uniform = lambda rows: (np.zeros((len(rows), 9)), np.zeros(len(rows)))
    states = [State(position) for position in positions()]
    policies, _ = search(settings, states, rows, lambda rows: rows[:, :9] > 0.5, uniform, simulator)
    for position, policy in zip(positions(), policies, strict=True):
        assert not policy[[cell for cell in range(9) if position[cell]]].any()
        assert value_of_move(position, int(policy.argmax())) == minimax(position)


def test_noise_is_that_of_a_dirichlet_distribution_over_the_actions_that_may_be_taken() -> None:
    generator = np.random.default_rng(0)
    legal = np.array([True, False, True, True])
    for concentration in (0.03, 0.5, 3.0):
        found = dirichlet(generator.random((20_000, 8), np.float32), np.tile(legal, (20_000, 1)), concentration)
        assert not found[:, 1].any() and np.isfinite(found).all()
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
        mean, variance = 1 / 3, (1 / 3) * (2 / 3) / (3 * concentration + 1)
        np.testing.assert_allclose(found[:, legal].mean(axis=0), mean, atol=0.01)
        np.testing.assert_allclose(found[:, legal].var(axis=0), variance, rtol=0.05)
    assert np.isfinite(dirichlet(np.zeros((1, 8), np.float32), legal[None], 0.03)).all()
    assert np.isfinite(dirichlet(np.ones((1, 8), np.float32), legal[None], 0.03)).all()
    mixed = with_noise(np.array([[0.5, 0.0, 0.5, 0.0]]), legal[None], np.array([[0.0, 0.0, 0.0, 1.0]]), 0.25)
    np.testing.assert_allclose(mixed, [[0.375, 0.0, 0.375, 0.25]])


def test_policies_are_powers_of_visits() -> None:
    visits = np.array([[3.0, 1.0, 0.0], [0.0, 0.0, 7.0]])
    np.testing.assert_allclose(tree_policy(visits, 1.0), [[0.75, 0.25, 0], [0, 0, 1]])
    np.testing.assert_allclose(tree_policy(visits, 2.0), [[0.9, 0.1, 0], [0, 0, 1]])


def test_a_simulator_goes_on_from_states_and_ranks_whole_episodes_where_it_is_told_to() -> None:
    env = CartPoleSparseRewards({"max_episode_steps": 2})
    flat = Flattener(env.observation_space)
    plain = EnvSimulator(env, env.observation_space, flat.rows)
    ranked = EnvSimulator(CartPoleSparseRewards({"max_episode_steps": 2}), env.observation_space, flat.rows,
                          lambda total: 1.0 if total >= 5 else -1.0)  # fmt: skip
    env.reset(seed=3)
    begin = state_of(env)
    states, actions = [State(begin, 3.0), State(begin, 2.0)], np.array([0, 1])
    first = plain.follow(states, actions)
    assert not first.ended.any() and not first.rewards.any() and [state.total for state in first.states] == [3.0, 2.0]
    np.testing.assert_array_equal(first.rows[:, :2], 1)
    assert not np.array_equal(first.rows[0], first.rows[1])
    np.testing.assert_array_equal(plain.follow(states, actions).rows, first.rows)
    assert plain.follow(first.states, actions).rewards.tolist() == [2.0, 2.0]
    last = ranked.follow(ranked.follow(states, actions).states, actions)
    assert last.ended.all() and last.rewards.tolist() == [1.0, -1.0]
    assert not ranked.follow(states, actions).rewards.any()


class Closed(gymnasium.Env[Any, Any]):
    """Does not tell where it is."""


def test_environments_that_can_not_be_searched_are_named() -> None:
    with pytest.raises(
        EnvError, match=r"^Closed can't be searched: give it get_state\(\), which returns where its epi"
    ):
        state_of(gymnasium.Wrapper(Closed()))
    assert players_of(gymnasium.Wrapper(TicTacToe())) == 2 and players_of(CartPoleSparseRewards()) == 1
    three = TicTacToe()
    three.num_players = 3  # type: ignore[misc]
    with pytest.raises(EnvError, match=r"^TicTacToe.num_players is 3, and searches know games of 1 player and of 2"):
        players_of(three)


def test_an_episode_must_not_go_on_where_nothing_may_be_done() -> None:
    nothing = lambda rows: np.zeros((len(rows), ACTIONS), bool)
    with pytest.raises(EnvError, match="^an episode goes on where action_mask allows no action: end it there, or let "):
        search(SearchSettings(), [State((0, 0, 0))], np.zeros((1, 8)), nothing, evaluate, RandomGames())
