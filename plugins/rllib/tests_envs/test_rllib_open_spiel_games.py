"""Games of OpenSpiel as they are: `pip install open_spiel`; see test_rllib_real_environments.py."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyspiel
import pytest
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs.open_spiel import OpenSpielEnv
from kernel_rllib.errors import EnvError


def played(env: OpenSpielEnv, seed: int) -> tuple[np.ndarray[Any, Any], int]:
    """Return what players earned by any actions that may be taken, and the number of steps."""
    generator, earned, steps = np.random.default_rng(seed), np.zeros(len(env.agents)), 0
    seen, _ = env.reset(seed=seed)
    over = False
    while not over:
        assert seen
        for player, observed in seen.items():
            assert env.observation_spaces is not None and env.observation_spaces[player].contains(observed)
        actions = {player: int(generator.choice(np.flatnonzero(one["action_mask"]))) for player, one in seen.items()}
        seen, rewards, ends, _, _ = env.step(actions)
        earned += [rewards[player] for player in env.agents]
        steps, over = steps + 1, ends["__all__"]
    return earned, steps


@pytest.mark.parametrize(
    "name",
    ["tic_tac_toe", "connect_four", "kuhn_poker", "leduc_poker", "goofspiel", "matrix_rps", "backgammon", "oshi_zumo"],
)
def test_games_by_turns_at_once_and_with_chance_are_played_to_their_ends(name: str) -> None:
    env = OpenSpielEnv(pyspiel.load_game(name), action_masks=True)
    for seed in range(3):
        earned, steps = played(env, seed)
        assert steps > 0 and earned.tolist() == pytest.approx(env.state.returns())
        again, _ = played(env, seed)
        assert again.tolist() == earned.tolist(), "the same seed, the same chance"


def test_a_copy_goes_on_from_where_a_game_is() -> None:
    env = OpenSpielEnv(pyspiel.load_game("kuhn_poker"), action_masks=True)
    env.reset(seed=1)
    other = pickle.loads(pickle.dumps(env))
    assert str(other.state) == str(env.state)
    assert other.step({0: 0})[1] == env.step({0: 0})[1]


def test_crowds_are_refused() -> None:
    with pytest.raises(EnvError, match=r"is a game of a crowd \(mean field\), and agents are single players here"):
        OpenSpielEnv(pyspiel.load_game("mfg_crowd_modelling"))


@pytest.mark.parametrize("name", ["connect_four", "matrix_rps", "kuhn_poker"])
def test_algorithms_learn_in_them(name: str) -> None:
    config = PPOConfig().environment(lambda _: OpenSpielEnv(pyspiel.load_game(name)))
    config.env_runners(num_env_runners=0, num_envs=2).training(train_batch_size=64, minibatch_size=32, num_epochs=1)
    algorithm = config.build()
    assert np.isfinite(algorithm.train()["episode_reward_mean"])
    algorithm.stop()
