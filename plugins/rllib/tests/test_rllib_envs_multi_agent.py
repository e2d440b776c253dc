"""Environments with several agents, of both generations, in groups, and as copies."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.envs.games.multi_agent_cart_pole import MultiAgentCartPole
from kernel_rllib.envs.games.rock_paper_scissors import PAPER, ROCK, SCISSORS, RockPaperScissors
from kernel_rllib.envs.games.two_step_game import TwoStepGame, grouped_two_step_game
from kernel_rllib.envs.groups import Groups
from kernel_rllib.envs.multi_agent import (
    ALL,
    MultiAgentEnv,
    agent_space,
    five_dicts,
    is_multi_agent,
    known_agents,
    make_multi_agent,
)
from kernel_rllib.envs.multi_agent_loop import MultiAgentLoop
from kernel_rllib.errors import EnvError, SpaceError
from kernel_rllib.testing.environments import Counter

TWO = spaces.Discrete(2)
SWORD = "Duel.step() failed in copy 0, in step 2 of its episode: RuntimeError: the sword is broken"


class Traffic(MultiAgentEnv):
    """Cars that come and go, as the documents of 0.8.5 show them; it does not call `super().__init__`."""

    def __init__(self, config: Any = None) -> None:
        self.observation_space = spaces.Box(0, 9, (1,))
        self.action_space = spaces.Discrete(3)
        self.time = 0
        self.got: list[Any] = []

    def reset(self) -> Any:  # type: ignore[override]
        self.time = 0
        return {"car_1": [0], 2: [0]}

    def step(self, action_dict: Any) -> Any:
        self.time += 1
        self.got.append(action_dict)
        if self.time == 1:
            return {"car_1": [1], "light": [5]}, {"car_1": 1, 2: -1, "light": None}, {2: True, ALL: False}, {}
        return {"car_1": [2]}, {"car_1": 2}, {ALL: True}, {"car_1": {"told": 1}}


def test_agents_come_and_go() -> None:
    loop = MultiAgentLoop([Traffic])
    (obs,) = loop.reset([0])
    assert {agent: row.tolist() for agent, row in obs.items()} == {"car_1": [0], 2: [0]}
    assert obs["car_1"].dtype == np.float32
    step = loop.step([{"car_1": 1, 2: 0}])
    assert {agent: row.tolist() for agent, row in step.obs[0].items()} == {"car_1": [1], "light": [5]}
    assert step.rewards == [{"car_1": 1.0, 2: -1.0}]
    assert step.terminateds == [{"car_1": False, 2: True, "light": False, ALL: False}]
    assert step.truncateds == [{"car_1": False, 2: False, "light": False, ALL: False}]
    assert step.final_obs == {0: {}}  # 2 ended, and saw nothing more
    step = loop.step([{"car_1": 0, "light": 2}])
    assert step.terminateds == [{"car_1": True, "light": True, ALL: True}]
    assert {agent: row.tolist() for agent, row in step.final_obs[0].items()} == {"car_1": [2]}
    assert {agent: row.tolist() for agent, row in step.obs[0].items()} == {"car_1": [0], 2: [0]}
    assert step.infos == {0: {"car_1": {"told": 1}}}
    assert loop.foreach(lambda env: env.got) == [[{"car_1": 1, 2: 0}, {"car_1": 0, "light": 2}]]


class Duel(MultiAgentEnv):
    """Two agents with spaces of their own, in five dicts."""

    def __init__(self, length: int = 3) -> None:
        super().__init__()
        self.agents = self.possible_agents = ["left", "right"]
        self.observation_spaces = {"left": spaces.Discrete(9), "right": spaces.Box(-np.inf, np.inf, (2,))}
        self.action_spaces = {"left": spaces.Discrete(2), "right": spaces.Box(-1, 1, (1,))}
        self.length = length
        self.time = 0
        self.fails_at = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super(MultiAgentEnv, self).reset(seed=seed)
        self.time = 0
        return self.seen(), {"__common__": {"begun": True}}

    def step(self, action_dict: Any) -> Any:
        self.time += 1
        if self.time == self.fails_at:
            raise RuntimeError("the sword is broken")
        rewards = dict.fromkeys(self.agents, float(self.time))
        return self.seen(), rewards, {ALL: False}, {ALL: self.time >= self.length}, {}

    def seen(self) -> Any:
        return {"left": self.time, "right": [self.time, self.np_random.random()]}


def test_five_dicts_and_spaces_of_each_agent() -> None:
    loop = MultiAgentLoop([Duel, lambda: Duel(2)])
    assert loop.possible_agents == ["left", "right"]
    assert loop.observation_space_of("left") == spaces.Discrete(9)
    assert loop.action_space_of("right") == spaces.Box(-1, 1, (1,))
    obs = loop.reset([1, 2])
    assert loop.reset_infos == {0: {"__common__": {"begun": True}}, 1: {"__common__": {"begun": True}}}
    assert obs[0]["left"].dtype == np.int64 and obs[1]["right"].shape == (2,)
    actions = [{"left": 0, "right": np.zeros(1)}] * 2
    loop.step(actions)
    step = loop.step(actions)
    assert step.truncateds == [{"left": False, "right": False, ALL: False}, {"left": True, "right": True, ALL: True}]
    assert not any(step.terminateds[1].values())
    assert list(step.final_obs) == [1] and step.final_obs[1]["left"] == 2 and step.obs[1]["left"] == 0
    assert step.reset_infos == {1: {"__common__": {"begun": True}}}
    np.testing.assert_array_equal(MultiAgentLoop([Duel]).reset([2])[0]["right"], obs[1]["right"])
    assert loop.reset_env(0, seed=2)["right"].tolist() == obs[1]["right"].tolist()


def test_a_limit_truncates_all() -> None:
    loop = MultiAgentLoop([lambda: Duel(99)], max_episode_steps=2)
    loop.reset([0])
    flags = [loop.step([{"left": 0, "right": 0}]).truncateds[0][ALL] for _ in range(4)]
    assert flags == [False, True, False, True]


def test_a_copy_that_fails_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    made: list[Duel] = []

    def make() -> Duel:
        made.append(Duel(99))
        made[-1].fails_at = 2 if len(made) == 1 else -1
        return made[-1]

    loop = MultiAgentLoop([make], restart_failed=True)
    loop.reset([3])
    first = loop.step([{"left": 0, "right": 0}])
    step = loop.step([{"left": 0, "right": 0}])
    assert str(step.faults[0]) == SWORD
    assert caplog.messages == [f"{SWORD}. The environment is made anew"]
    assert step.truncateds == [{"left": True, "right": True, ALL: True}] and step.rewards == [{}]
    assert step.final_obs[0]["left"] == 1 and step.obs[0]["left"] == 0
    np.testing.assert_array_equal(step.final_obs[0]["right"], first.obs[0]["right"])
    assert not loop.step([{"left": 0, "right": 0}]).faults
    made.clear()
    loop = MultiAgentLoop([make])
    loop.reset([3])
    loop.step([{}])
    with pytest.raises(EnvError, match="in copy 0, in step 2 of its episode: RuntimeError: the sword is broken"):
        loop.step([{}])


def test_copies_are_saved_and_go_on() -> None:
    first, second = MultiAgentLoop([Duel]), MultiAgentLoop([Duel])
    first.reset([1])
    first.step([{}])
    second.restore(0, first.snapshot(0))
    for _ in range(5):
        expected, found = first.step([{}]), second.step([{}])
        assert found.obs[0]["right"].tolist() == expected.obs[0]["right"].tolist()
        assert found.truncateds == expected.truncateds
    first.close()


def with_step(returned: Any) -> Any:
    class Wrong(Traffic):
        def step(self, action_dict: Any) -> Any:
            return returned

    return Wrong


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (with_step(5), r"Wrong.step\(\) returned 5: a multi-agent environment returns dicts by agent"),
        (with_step(({}, {}, {})), r"Wrong.step\(\) returned 3 values"),
        (
            with_step(({}, 1.0, {ALL: True}, {})),
            r"returned 1.0 \(float\) where a dict by agent is expected",
        ),
        (with_step(({}, {}, {"car_1": True}, {})), r"returned dones .'car_1': True. without the key \"__all__\""),
        (with_step(({}, {}, {}, {}, {})), r"returned terminateds .. without the key"),
        (
            with_step(({"car_1": [1, 2]}, {}, {ALL: False}, {})),
            r"as observation of agent 'car_1', but",
        ),
        (with_step(({}, {"car_1": "x"}, {ALL: False}, {})), "the reward of agent 'car_1' is 'x', which is no number"),
        (with_step(({}, {"car_1": float("nan")}, {ALL: False}, {})), "the reward of agent 'car_1' is nan"),
        (with_step(({"car_1": [np.nan]}, {}, {ALL: False}, {})), "NaN in the observation of agent 'car_1'"),
    ],
)
def test_steps_that_break_the_contract(env: Any, words: str) -> None:
    loop = MultiAgentLoop([env])
    loop.reset([0])
    with pytest.raises(EnvError, match=words):
        loop.step([{}])


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ([0], r"^Wrong.reset\(\) returned \[0\] \(list\): a multi-agent environment returns a dict of observations"),
        ({}, r"^Wrong.reset\(\) returned no observations: at least one agent"),
    ],
)
def test_resets_that_break_the_contract(returned: Any, words: str) -> None:
    class Wrong(Traffic):
        def reset(self) -> Any:
            return returned

    with pytest.raises(EnvError, match=words):
        MultiAgentLoop([Wrong]).reset([0])


def test_wrong_calls() -> None:
    with pytest.raises(EnvError, match="needs one copy at least"):
        MultiAgentLoop([])
    loop = MultiAgentLoop([Traffic])
    with pytest.raises(EnvError, match=r"step\(\) was called before reset\(\)"):
        loop.step([{}])
    loop.reset([0])
    with pytest.raises(EnvError, match="got the actions of 2 copies, and there are 1"):
        loop.step([{}, {}])


def test_dones_are_split_by_time_limits() -> None:
    infos = {"a": {"TimeLimit.truncated": True}}
    _, _, terminateds, truncateds, _ = five_dicts(({}, {}, {"a": True, "b": True, ALL: False}, infos), "Maze")
    assert terminateds == {"a": False, "b": True, ALL: False} and truncateds == {"a": True, "b": False, ALL: False}
    _, _, terminateds, truncateds, _ = five_dicts(({}, {}, {ALL: True}, infos), "Maze")
    assert truncateds[ALL] and not terminateds[ALL]
    _, _, terminateds, truncateds, _ = five_dicts(({}, {}, {ALL: True}, {}, {}), "Maze")
    assert terminateds[ALL] and truncateds == {ALL: False}


def test_where_spaces_are_found() -> None:
    env = MultiAgentEnv()
    with pytest.raises(EnvError, match="^MultiAgentEnv has no observation_space for agent 1: set observation_spaces"):
        env.get_observation_space(1)
    env.observation_space = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Discrete(3)})
    assert agent_space(env, "observation_space", "a") == spaces.Discrete(2)
    assert agent_space(env, "observation_space", "c") == env.observation_space
    env.agents = ["a", "c"]  # then "a" is a part of what each agent sees
    assert agent_space(env, "observation_space", "a") == env.observation_space
    env.observation_spaces = {"a": spaces.Discrete(7)}
    assert agent_space(env, "observation_space", "a") == spaces.Discrete(7)
    env.observation_spaces = {"a": "wide"}  # type: ignore[dict-item]
    with pytest.raises(EnvError, match=r"the observation_space of agent 'a' is 'wide' \(str\)"):
        env.get_observation_space("a")
    env.possible_agents = ["c", "b", "a"]
    assert env.get_agent_ids() == {"a", "b", "c"} and list(known_agents(env)) == ["c", "b", "a"]
    env.possible_agents = []
    env.action_space = spaces.Discrete(4)
    assert env.get_action_space("z") == spaces.Discrete(4)
    assert (env.num_agents, env.max_num_agents, env.get_agent_ids()) == (2, 0, {"a", "c"})
    assert is_multi_agent(env) and not is_multi_agent(Counter())


# -- groups ----------------------------------------------------------------------------------------------------------


def test_the_two_step_game() -> None:
    game = TwoStepGame()
    obs, _ = game.reset()
    assert obs == {0: 0, 1: 3}
    for first, place, worth in [(0, (0, 0), 7), (0, (1, 0), 7), (1, (0, 0), 0), (1, (0, 1), 1), (1, (1, 1), 8)]:
        game.reset()
        obs, rewards, terminateds, _, _ = game.step({0: first, 1: 1})
        assert obs[0] == 1 + first and rewards == {0: 0, 1: 0} and not terminateds[ALL]
        _, rewards, terminateds, _, _ = game.step({0: place[0], 1: place[1]})
        assert sum(rewards.values()) == worth and terminateds == {0: True, 1: True, ALL: True}
    logits = TwoStepGame({"actions_are_logits": True})
    logits.reset()
    assert logits.step({0: [0.2, 0.9], 1: [1, 0]})[0][0] == 2


def test_a_group_acts_as_one() -> None:
    game = grouped_two_step_game()
    assert list(game.possible_agents) == ["group_1"]
    assert game.get_action_space("group_1") == spaces.Tuple([spaces.Discrete(2)] * 2)
    loop = MultiAgentLoop([lambda: game])
    (obs,) = loop.reset([0])
    assert obs["group_1"][0]["state"].tolist() == [1, 0, 0] and obs["group_1"][1]["obs"].tolist() == [1, 0, 0, 2]
    loop.step([{"group_1": (1, 0)}])
    step = loop.step([{"group_1": (1, 1)}])
    assert step.rewards == [{"group_1": 8.0}] and step.terminateds == [{"group_1": True, ALL: True}]
    assert step.infos[0]["group_1"]["individual_rewards"] == [4.0, 4.0]
    assert step.infos[0]["group_1"]["_group_rewards"] == [4.0, 4.0]
    assert step.final_obs[0]["group_1"][0]["obs"].shape == (4,)


def test_agents_without_a_group_stay() -> None:
    duel = Duel()
    grouped = duel.with_agent_groups({"team": ["left"]})
    obs, infos = grouped.reset(seed=1)
    assert obs["team"] == (0,) and obs["right"][0] == 0 and infos == {"__common__": {"begun": True}}
    assert list(grouped.possible_agents) == ["team", "right"]
    obs, rewards, terminateds, truncateds, _ = grouped.step({"team": (1,), "right": [0.0]})
    assert rewards == {"team": 1.0, "right": 1.0} and terminateds == {ALL: False} == truncateds
    assert grouped.unwrapped is duel
    same = duel.with_agent_groups(duel, {"team": ["left"]}, None, None)  # type: ignore[arg-type]
    assert list(same.possible_agents) == ["team", "right"]


def test_a_group_has_ended_when_all_its_members_have() -> None:
    class Leaving(Duel):
        def step(self, action_dict: Any) -> Any:
            obs, rewards, _, _, infos = super().step(action_dict)
            return obs, rewards, {"left": True, "right": self.time > 1, ALL: False}, {ALL: False}, infos

    grouped = Leaving().with_agent_groups({"team": ["left", "right"]})
    grouped.reset()
    assert grouped.step({"team": (0, 0)})[2] == {"team": False, ALL: False}
    assert grouped.step({"team": (0, 0)})[2] == {"team": True, ALL: False}


def test_spaces_of_groups_are_tuples() -> None:
    given = spaces.Tuple([spaces.Discrete(9)])
    grouped = Duel().with_agent_groups(
        {"team": ["left"]}, obs_space=given, act_space=spaces.Tuple([spaces.Discrete(2)])
    )
    assert grouped.get_observation_space("team") is given
    with pytest.raises(SpaceError, match=r"got obs_space=Discrete\(9\), but the space of a group is a Tuple"):
        Duel().with_agent_groups({"team": ["left"]}, obs_space=spaces.Discrete(9))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Groups({"a": [1], "b": [1]}), "^agent 1 is in the groups 'a' and 'b': it can be in one"),
        (lambda: Groups({"a": []}), "^group 'a' has no members"),
        (
            lambda: Groups({"a": [1, 2]}).joined({1: 0}, list, "observation"),
            r"^agents .2. of group 'a' have no obs",
        ),
        (lambda: Groups({"a": [1, 2]}).apart({"a": [0]}), "^group 'a' got 1 actions for its 2 members"),
    ],
)
def test_wrong_groups(call: Any, words: str) -> None:
    with pytest.raises(EnvError, match=words):
        call()


# -- copies as agents ------------------------------------------------------------------------------------------------


def test_copies_as_agents(tmp_path: Path) -> None:
    cls = make_multi_agent(lambda config: Counter(config["length"]))
    env = cls({"num_agents": 2, "length": 2})
    assert isinstance(env, MultiAgentEnv) and list(env.possible_agents) == [0, 1]
    assert env.get_action_space(1) == Counter.action_space
    loop = MultiAgentLoop([lambda: env])
    (obs,) = loop.reset([4])
    assert obs[0][1] != obs[1][1]
    assert not loop.step([{0: 1, 1: 2}]).terminateds[0][ALL]
    step = loop.step([{0: 1}])
    assert step.terminateds[0] == {0: True, 1: False, ALL: False} and list(step.final_obs[0]) == [0]
    assert list(step.obs[0]) == []  # 1 was not asked, and sees nothing new
    step = loop.step([{1: 3}])
    assert step.terminateds[0][ALL] and step.rewards == [{1: 3.0}] and list(step.obs[0]) == [0, 1]
    again = pickle.loads(cloudpickle.dumps(cls))
    assert again({"num_agents": 3, "length": 1}).max_num_agents == 3
    with pytest.raises(EnvError, match="^agent 0 got an action, but its episode has ended"):
        env.reset()
        env.step({0: 1})
        env.step({0: 1})
        env.step({0: 1})
    env.close()


def test_carts_of_many_agents() -> None:
    loop = MultiAgentLoop([lambda: MultiAgentCartPole({"num_agents": 4})])
    (obs,) = loop.reset([0])
    ends = 0
    for _ in range(150):
        step = loop.step([dict.fromkeys(obs, 1)])
        (obs,) = step.obs
        ends += step.terminateds[0][ALL]
        assert len(obs) == 4 or not step.terminateds[0][ALL]
    assert ends > 5
    assert make_multi_agent("CartPole-v1")().num_agents == 1


def test_rock_paper_scissors() -> None:
    game = RockPaperScissors({"num_rounds": 3})
    obs, _ = game.reset()
    assert obs == {"player_0": 3, "player_1": 3}
    for one, other, won in [(ROCK, PAPER, -1), (SCISSORS, PAPER, 1), (ROCK, ROCK, 0)]:
        obs, rewards, terminateds, _, _ = game.step({"player_0": one, "player_1": other})
        assert obs == {"player_0": other, "player_1": one} and rewards == {"player_0": won, "player_1": -won}
    assert terminateds[ALL]
