"""Steps that were made elsewhere: written as they are, without asking the policy what it would have done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.data import columns
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.exploration.exploration import StochasticSampling
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.runners.agent_lanes import AgentLanes
from kernel_rllib.runners.agent_steps import DONE, TERMINATED, VOID
from kernel_rllib.runners.logged_steps import Done
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint

SEEN = spaces.Box(-100.0, 100.0, (2,), np.float32)
SPACES: dict[str, tuple[Any, Any]] = {
    "discrete": (spaces.Discrete(3, start=1), np.array(2)),
    "box": (spaces.Box(-2.0, 6.0, (2,), np.float32), np.array([4.0, -1.0], np.float32)),
    "several": (spaces.MultiDiscrete([2, 3]), np.array([1, 2])),
}


def lanes_of(action_space: Any, *, records: bool = True) -> AgentLanes:
    distribution = for_space(action_space)
    module = ActorCritic(2, distribution.parameter_size, options=ActorCriticOptions(hidden=(4,)))
    exploration = StochasticSampling(distribution, records=records)
    made = PolicyBlueprint(observation_space=SEEN, action_space=action_space, module=module, exploration=exploration)
    lanes = AgentLanes("p", made, RunnerPlace(0, (0,), 0, 1), 0)
    lanes.vector[...] = module.initial(np.random.default_rng(3))
    return lanes


def outputs_at(lanes: AgentLanes, step: int) -> dict[str, Any]:
    (shape,) = lanes.output_shapes().values()
    return {columns.ACTION_DIST_INPUTS: np.full(shape, 0.25 * step, np.float32)}


def played(lanes: AgentLanes, action: Any) -> tuple[list[Any], list[Fragment | None]]:
    """Play an episode in which the policy acts in between; return what it did, and two fragments."""
    position = lanes.take(0, 0, "a")
    lanes.records_owners = True
    lanes.own(position, 40, 7)
    lanes.early(position, 5.0)
    acted, fragments = [], []
    for step in range(9):
        if step:
            lanes.end(position, DONE, None)
        seen = np.array([step, -step], np.float32)
        done = Done(action, outputs_at(lanes, step))
        lanes.observe(position, seen, None if step in (3, 7) else done)
        acted += [each[1] for each in lanes.act(step) if step in (3, 7)]
        lanes.reward(position, float(step))
        if step == 4:
            fragments.append(lanes.fragment(1))
    lanes.end(position, TERMINATED, np.array([9, 9], np.float32))
    return acted, [*fragments, lanes.fragment(1)]


@pytest.mark.parametrize("name", SPACES)
def test_a_step_that_is_written_at_once_is_the_one_that_a_forward_pass_would_leave(name: str) -> None:
    space, action = SPACES[name]
    at_once, asked = lanes_of(space), lanes_of(space)
    asked._logs_at_once = False
    (acted, found), (expected_acted, expected) = played(at_once, action), played(asked, action)
    np.testing.assert_equal(acted, expected_acted)  # the noise of the policy goes on alike
    for here, there in zip(found, expected, strict=True):
        assert here is not None and there is not None
        assert here.columns.keys() == there.columns.keys()
        for column, values in there.columns.items():
            assert here.columns[column].dtype == values.dtype, column
            np.testing.assert_array_equal(here.columns[column], values, column)
        np.testing.assert_array_equal(here.last_obs, there.last_obs)
        np.testing.assert_array_equal(here.final_obs, there.final_obs)


@pytest.mark.parametrize(("records", "with_outputs", "passes"), [(True, True, 0), (False, False, 0), (True, False, 9)])
def test_a_forward_pass_is_made_where_learning_needs_what_it_gives(
    records: bool, with_outputs: bool, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = lanes_of(spaces.Discrete(2), records=records)
    position, made = lanes.take(0, 0, "a"), []
    outputs = outputs_at(lanes, 1) if records and with_outputs else {}
    forward = lanes._forward
    monkeypatch.setattr(lanes, "_forward", lambda *given: made.append(1) or forward(*given))
    for step in range(9):
        if step:
            lanes.end(position, DONE, None)
        lanes.observe(position, np.zeros(2, np.float32), Done(np.array(1), outputs if with_outputs else None))
        lanes.act(step)
    lanes.end(position, TERMINATED, np.zeros(2, np.float32))
    fragment = lanes.fragment(0)
    assert fragment is not None and fragment.columns[columns.ACTIONS].shape == (9, 1)
    assert len(made) == passes


def test_the_last_step_of_an_abandoned_episode_is_not_made() -> None:
    lanes = lanes_of(spaces.Discrete(2))
    position = lanes.take(0, 0, "a")
    for step in range(3):
        if step:
            lanes.end(position, DONE, None)
        lanes.observe(position, np.full(2, step, np.float32), Done(np.array(1), outputs_at(lanes, step)))
    lanes.end(position, VOID, None)
    fragment = lanes.fragment(0)
    assert fragment is not None and fragment.valid is not None
    assert fragment.valid[:, 0].tolist() == [True, True, False]
    assert fragment.final_obs.tolist() == [[2, 2]]


def test_a_lane_goes_on_elsewhere_with_the_step_that_was_logged_last() -> None:
    lanes, later = lanes_of(spaces.Discrete(2)), lanes_of(spaces.Discrete(2))
    position = lanes.take(0, 0, "a")
    lanes.observe(position, np.ones(2, np.float32), Done(np.array(1), outputs_at(lanes, 2)))
    lanes.reward(position, 3.0)
    there = later.take(0, 0, "a")
    later.set_lane_state(there, lanes.lane_state(position))
    later.end(there, TERMINATED, np.zeros(2, np.float32))
    fragment = later.fragment(0)
    assert fragment is not None
    assert fragment.columns[columns.OBS].tolist() == [[[1.0, 1.0]]]
    assert fragment.columns[columns.REWARDS].tolist() == [[3.0]]
    assert fragment.columns[columns.ACTION_DIST_INPUTS].tolist() == [[[0.5, 0.5]]]
