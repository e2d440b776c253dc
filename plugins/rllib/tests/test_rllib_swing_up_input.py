"""The recorded swings of Pendulum: the same for the same seed, as good as it is said, and cut off at their ends."""

from __future__ import annotations

import numpy as np
from kernel_rllib.experiments.swing_up_input import SwingUpInput, swing_ups
from kernel_rllib.offline.io_context import IOContext


def test_some_episodes_swing_up_and_others_do_anything() -> None:
    found = swing_ups(3, episodes=6, skill=0.5, noise=0.1)
    returns = [float(episode["rewards"].sum()) for episode in found]
    assert min(returns[:3]) > -450 and max(returns[3:]) < -600
    for number, episode in enumerate(found):
        assert episode["eps_id"].tolist() == [number] * 200
        np.testing.assert_array_equal(episode["obs"][1:], episode["new_obs"][:-1])
        assert not episode["terminateds"].any() and episode["truncateds"].nonzero()[0].tolist() == [199]
        assert np.abs(episode["actions"]).max() <= 2
    assert np.ptp(found[3]["actions"]) > 3.9
    again = swing_ups(3, episodes=6, skill=0.5, noise=0.1)
    np.testing.assert_array_equal(again[5]["obs"], found[5]["obs"])


def test_a_reader_goes_on_where_another_was() -> None:
    context = IOContext(config={"seed": 4, "input_config": {"episodes": 3, "noise": 0.0}}, seed=1)
    first, again = SwingUpInput(context), SwingUpInput(context)
    seen = [int(first.next()["eps_id"][0]) for _ in range(4)]
    assert sorted(seen[:3]) == [0, 1, 2]
    again.set_state(first.state())
    assert [again.next()["eps_id"][0] for _ in range(5)] == [first.next()["eps_id"][0] for _ in range(5)]
    (zeroth,) = [batch for batch in (first.next() for _ in range(3)) if batch["eps_id"][0] == 0]
    np.testing.assert_array_equal(zeroth["obs"], swing_ups(4, 3, noise=0.0)[0]["obs"])
    first.close()
