"""Advantages of fragments: with and without values, generalised or not, by modules that remember and that don't."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.advantages import estimate_advantages, fragment_values, standardise_advantages
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.learners.learner import Learner
from kernel_rllib.nn.backends import backend
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.testing.counting import counting_blueprint, counting_sampler


def sampled(lstm: int | None, **env_config: Any) -> tuple[Learner, Fragment]:
    """Return a learner, and a fragment of 9 steps of 4 lanes that was sampled with its parameters."""
    blueprint = counting_blueprint(env_config, lstm=lstm)
    learner = Learner(blueprint.module, backend("numpy"), {}, np.random.default_rng(1))
    acting = counting_sampler(blueprint)
    acting.set_weights(learner.weights, 1)
    acting.sample(2)
    return learner, acting.sample(9)


@pytest.mark.parametrize("cut", [False, True])
def test_values_of_a_memory_are_those_it_had_step_by_step(cut: bool) -> None:
    learner, fragment = sampled(5, cut=cut)
    module, nn, parameters = learner.module, NumpyOps(), learner.module.table.views(learner.weights)
    values, next_values = fragment_values(learner, fragment)
    ends = {(t, lane): row for (t, lane), row in zip(fragment.final_at.tolist(), fragment.final_obs, strict=True)}
    assert ends, "episodes end inside"
    after: dict[str, Any] = {}
    for t in range(9):
        state = {name: held[t] for name, held in fragment.state_in.items()}
        if t:  # the runner went on with what the step before gave, and forgot where an episode began
            begins = fragment.columns["resets"][t][:, None]
            for name, held in after.items():
                np.testing.assert_allclose(state[name], np.where(begins, 0, held), atol=1e-6)
        given = module.train(nn, parameters, {"obs": fragment.columns["obs"][t], "state_in": state})
        after = given["state_out"]
        np.testing.assert_allclose(values[t], given["vf_preds"], atol=1e-6)
        for lane in range(4):
            beyond = ends.get((t, lane), fragment.last_obs[lane] if t == 8 else None)
            if beyond is None:
                assert next_values[t, lane] == values[t + 1, lane]
                continue
            held = {name: value[lane : lane + 1] for name, value in after.items()}
            last = module.train(nn, parameters, {"obs": beyond[None], "state_in": held})
            assert next_values[t, lane] == pytest.approx(last["vf_preds"][0], abs=1e-6)


def test_without_a_critic_advantages_are_returns_to_go() -> None:
    learner, fragment = sampled(None, length=4)
    estimate_advantages(learner, fragment, gamma=0.5, use_gae=False, use_critic=False)
    ends = np.flatnonzero(fragment.columns["terminateds"][:, 0])
    first = fragment.columns["advantages"][ends[0] + 1 : ends[1] + 1, 0]
    assert first.tolist() == [1.875, 1.75, 1.5, 1.0]
    assert not fragment.columns["value_targets"].any() and "vf_preds" not in fragment.columns


def test_without_generalised_estimates_values_complete_the_returns() -> None:
    learner, fragment = sampled(None, length=4)
    estimate_advantages(learner, fragment, gamma=0.5, use_gae=False)
    values, next_values = fragment_values(learner, fragment)
    targets = fragment.columns["value_targets"]
    np.testing.assert_allclose(fragment.columns["advantages"], targets - values, atol=1e-6)
    np.testing.assert_allclose(targets[8], 1 + 0.5 * next_values[8] * ~fragment.columns["terminateds"][8], atol=1e-6)
    generalised = fragment.columns["advantages"].copy()
    estimate_advantages(learner, fragment, gamma=0.5, lambda_=1.0)
    np.testing.assert_allclose(fragment.columns["advantages"], generalised, atol=1e-5)


def test_advantages_of_all_fragments_have_one_mean_and_one_deviation() -> None:
    parts = [sampled(None, length=length)[1] for length in (3, 5)]
    draw = np.random.default_rng(0)
    for place, part in enumerate(parts):
        part.columns["advantages"] = draw.normal(3 + place, 2, (9, 4)).astype(np.float32)
    parts[0].valid = np.ones((9, 4), bool)
    parts[0].valid[2, 1], parts[0].columns["advantages"][2, 1] = False, 1e6
    standardise_advantages(parts)
    made = np.concatenate([parts[0].columns["advantages"][parts[0].valid], parts[1].columns["advantages"].ravel()])
    assert (made.mean(), made.std()) == (pytest.approx(0, abs=1e-6), pytest.approx(1, abs=1e-6))
