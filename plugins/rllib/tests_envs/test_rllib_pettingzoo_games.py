"""Games of PettingZoo as they are: `pip install pettingzoo pygame`; see test_rllib_real_environments.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs.pettingzoo import ParallelPettingZooEnv, PettingZooEnv
from pettingzoo.classic import rps_v2, tictactoe_v3


def test_tic_tac_toe_is_played_by_turns_to_its_end() -> None:
    env = PettingZooEnv(tictactoe_v3.env())
    seen, _ = env.reset(seed=0)
    for place, mover in enumerate(("player_1", "player_2", "player_1", "player_2", "player_1")):
        assert list(seen) == [mover]
        assert seen[mover]["action_mask"].sum() == 9 - place
        seen, rewards, over, cut, _ = env.step({mover: {0: 0, 1: 3, 2: 1, 3: 4, 4: 2}[place]})
    assert rewards == {"player_1": 1, "player_2": -1}
    assert over == {"player_1": True, "player_2": True, "__all__": True}
    assert not cut["__all__"]


def test_rock_paper_scissors_is_played_at_once() -> None:
    env = ParallelPettingZooEnv(rps_v2.parallel_env(max_cycles=3))
    seen, _ = env.reset(seed=0)
    assert set(seen) == {"player_0", "player_1"}
    found = [env.step({"player_0": 1, "player_1": 0}) for _ in range(3)]
    assert [rewards for _, rewards, *_ in found] == [{"player_0": 1, "player_1": -1}] * 3
    assert [step[2]["__all__"] or step[3]["__all__"] for step in found] == [False, False, True]


@pytest.mark.parametrize(
    "make", [lambda _: ParallelPettingZooEnv(rps_v2.parallel_env()), lambda _: PettingZooEnv(tictactoe_v3.env())]
)
def test_algorithms_learn_in_them(make: Any) -> None:
    config = PPOConfig().environment(make).env_runners(num_env_runners=0, num_envs=2)
    algorithm = config.training(train_batch_size=64, minibatch_size=32, num_epochs=1).build()
    assert np.isfinite(algorithm.train()["episode_reward_mean"])
    algorithm.stop()
