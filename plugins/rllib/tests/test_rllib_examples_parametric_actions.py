"""The example of actions that are told by vectors: its environment, its models, and that both algorithms learn."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from kernel_rllib.data import columns
from kernel_rllib.envs.checking import check_env
from kernel_rllib.envs.games.parametric_cart_pole import ParametricActionsCartPole
from kernel_rllib.errors import EnvError
from kernel_rllib.examples.parametric_actions_cartpole import dqn_config, main, ppo_config
from kernel_rllib.examples.parametric_actions_model import ParametricActionsModel, ParametricActionsQModel
from kernel_rllib.nn.numpy_ops import NumpyOps


def test_the_two_actions_are_told_by_their_vectors() -> None:
    env = ParametricActionsCartPole({"max_avail_actions": 5})
    seen, _ = env.reset(seed=0)
    places = set()
    for _ in range(8):
        assert env.observation_space.contains(seen)
        allowed = np.flatnonzero(seen["action_mask"])
        right = next(at for at in allowed if np.allclose(seen["avail_actions"][at], env.vectors[1]))
        assert seen["action_mask"].sum() == 2 and not seen["avail_actions"][seen["action_mask"] == 0].any()
        speed = seen["cart"][1]
        seen, *_ = env.step(right)
        assert seen["cart"][1] > speed
        places.add(tuple(allowed))
    assert len(places) > 2


def test_an_action_that_may_not_be_taken_is_an_error() -> None:
    env = ParametricActionsCartPole()
    seen, _ = env.reset(seed=0)
    wrong = int(seen["action_mask"].argmin())
    with pytest.raises(EnvError, match=rf"action {wrong} may not be taken now, but \[\d, \d\]: observations say so in"):
        env.step(wrong)
    with pytest.raises(EnvError, match="max_avail_actions is 1, but there are two actions: left and right"):
        ParametricActionsCartPole({"max_avail_actions": 1})


def test_a_look_at_an_environment_takes_actions_that_its_mask_allows() -> None:
    assert check_env(ParametricActionsCartPole({"max_avail_actions": 50}), steps=200) == []

    class Blind(gymnasium.ObservationWrapper[Any, Any, Any]):
        def observation(self, observation: Any) -> Any:
            return {**observation, "action_mask": np.zeros(10, np.float32)}

    with pytest.raises(EnvError, match="may not be taken now"):
        check_env(Blind(ParametricActionsCartPole()))


@pytest.mark.parametrize("kind", [ParametricActionsModel, ParametricActionsQModel])
def test_an_action_is_worth_the_product_of_its_vector_and_what_is_wanted(kind: Any) -> None:
    model, generator = kind(num_outputs=3, seen=4), np.random.default_rng(0)
    views = model.table.views(generator.normal(size=model.table.size).astype(np.float32))
    vectors, seen = generator.normal(size=(5, 3, 2)), generator.normal(size=(5, 4))
    mask = np.array([[1, 0, 1]] * 5)
    obs = np.concatenate([mask, vectors.reshape(5, 6), seen], axis=1).astype(np.float32)
    outputs = model.train(NumpyOps(), views, {columns.OBS: obs})
    intent = model.intent(NumpyOps(), views, model.body(NumpyOps(), views, seen.astype(np.float32)))
    found = outputs.get(columns.Q_VALUES, outputs.get(columns.ACTION_DIST_INPUTS))
    expected = np.einsum("nae,ne->na", vectors, intent)
    np.testing.assert_allclose(found[:, [0, 2]], expected[:, [0, 2]], rtol=1e-4)
    assert (found[:, 1] <= -1e9).all()


@pytest.mark.parametrize("make", [ppo_config, dqn_config])
def test_no_action_is_taken_that_may_not_be(make: Any) -> None:
    config = make().debugging(seed=1)
    config.training(train_batch_size=128, **({"num_epochs": 1} if make is ppo_config else {}))
    algorithm = config.build()
    for _ in range(2):
        assert algorithm.train()["timesteps_total"] > 0  # the environment raises otherwise
    metrics = algorithm.train()["learners"]["default_policy"]
    assert all(np.isfinite(value) for value in metrics.values())


def test_the_program_trains_until_it_is_told_to_end(capsys: Any) -> None:
    assert main(["--run", "PPO", "--seed", "1", "--stop-iters", "6"]) > 22, "any actions have 22"
    assert capsys.readouterr().out.count("mean return") == 6
