"""The examples of critics that see both agents: what is seen by whom, and that they learn the game of two steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_rllib.data import columns
from kernel_rllib.examples import centralized_critic, centralized_critic_2
from kernel_rllib.examples.centralized_critic import OWN, CentralizedCriticPPO, make_config, with_other
from kernel_rllib.examples.centralized_critic_2 import GlobalObsTwoStepGame
from kernel_rllib.examples.centralized_critic_model import CentralizedCriticModel
from kernel_rllib.nn.numpy_ops import NumpyOps


@pytest.mark.parametrize("program", [centralized_critic, centralized_critic_2])
def test_it_learns_to_get_the_safe_return_at_least(program: Any, capsys: Any) -> None:
    assert program.main(["--seed", "1", "--stop-iters", "40", "--stop-reward", "6.9", "--as-test"]) >= 6.9
    assert "mean return" in capsys.readouterr().out


def test_as_a_test_it_says_what_was_not_reached() -> None:
    with pytest.raises(RuntimeError, match="and should have become 8.5"):
        centralized_critic.main(["--seed", "1", "--stop-timesteps", "10", "--stop-reward", "8.5", "--as-test"])


def test_the_policy_sees_its_own_columns_and_the_value_function_all() -> None:
    model = CentralizedCriticModel(num_outputs=2, own=3, seen=7, hiddens=[4])
    views = model.table.views(np.random.default_rng(0).normal(size=model.table.size).astype(np.float32))
    rows = np.random.default_rng(1).normal(size=(5, 7)).astype(np.float32)
    other = rows.copy()
    other[:, 3:] += 1
    one, changed = (model.train(NumpyOps(), views, {columns.OBS: each}) for each in (rows, other))
    alone = model.explore(NumpyOps(), views, {columns.OBS: rows[:, :3]})
    for found in (changed, alone):
        np.testing.assert_array_equal(found[columns.ACTION_DIST_INPUTS], one[columns.ACTION_DIST_INPUTS])
    assert (changed[columns.VF_PREDS] != one[columns.VF_PREDS]).all()


def test_what_the_other_did_stands_beside_what_an_agent_saw() -> None:
    algorithm = make_config(seed=1).build()
    assert isinstance(algorithm, CentralizedCriticPPO)
    fragments = algorithm.sample_all()
    mine, theirs = fragments["first"], fragments["second"]
    seen = with_other(mine, theirs)
    assert seen.columns[columns.OBS].shape[-1] == 2 * OWN + 2
    own, others, done = np.split(seen.columns[columns.OBS], [OWN, 2 * OWN], axis=-1)
    np.testing.assert_array_equal(own, mine.columns[columns.OBS])
    np.testing.assert_array_equal(own.argmax(-1) + 3, others.argmax(-1))  # both see the same state
    np.testing.assert_array_equal(done.argmax(-1), theirs.columns[columns.ACTIONS])
    assert seen.final_obs.shape[-1] == seen.last_obs.shape[-1] == 2 * OWN + 2
    assert mine.columns[columns.OBS].shape[-1] == OWN, "what runners sampled is as it was"
    algorithm.stop()


def test_the_environment_shows_each_agent_what_the_other_sees() -> None:
    env = GlobalObsTwoStepGame()
    seen, _ = env.reset()
    assert [row.nonzero()[0].tolist() for row in seen.values()] == [[0, 6 + 3], [3, 6 + 0]]
    seen, *_ = env.step({0: 1, 1: 0})
    assert [row.nonzero()[0].tolist() for row in seen.values()] == [[2, 6 + 5], [5, 6 + 2]]
