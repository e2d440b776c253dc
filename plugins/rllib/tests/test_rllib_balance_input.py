"""The recorded balances of CartPole: the same for the same seed, worse from one to the next, cut off at 500 steps."""

from __future__ import annotations

import numpy as np
from kernel_rllib.experiments.balance_input import BalanceInput, balances
from kernel_rllib.offline.io_context import IOContext


def test_episodes_are_good_and_bad_ones() -> None:
    found = balances(3, episodes=9)
    returns = [float(episode["rewards"].sum()) for episode in found]
    assert returns[:3] == [500.0] * 3 and np.mean(returns[-3:]) < 60
    for number, episode in enumerate(found):
        assert episode["eps_id"].tolist() == [number] * episode.count
        np.testing.assert_array_equal(episode["obs"][1:], episode["new_obs"][:-1])
        ends = episode["terminateds"] | episode["truncateds"]
        assert ends.nonzero()[0].tolist() == [episode.count - 1]
        assert bool(episode["truncateds"][-1]) == (episode.count == 500)
    again = balances(3, episodes=9)
    np.testing.assert_array_equal(again[8]["obs"], found[8]["obs"])


def test_a_reader_goes_on_where_another_was() -> None:
    context = IOContext(config={"seed": 4, "input_config": {"episodes": 3}}, seed=1)
    first, again = BalanceInput(context), BalanceInput(context)
    seen = [int(first.next()["eps_id"][0]) for _ in range(4)]
    assert sorted(seen[:3]) == [0, 1, 2]
    again.set_state(first.state())
    assert [again.next()["eps_id"][0] for _ in range(5)] == [first.next()["eps_id"][0] for _ in range(5)]
    first.close()
