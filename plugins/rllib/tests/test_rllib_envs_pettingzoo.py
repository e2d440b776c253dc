"""Environments of PettingZoo's two kinds, without that library: what agents see, get, and when it is over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs.checking import check_first_step
from kernel_rllib.envs.pettingzoo import ParallelPettingZooEnv, PettingZooEnv
from kernel_rllib.errors import EnvError


class Together:
    """Two agents who count; `a` leaves after 2 steps, and `b` after 4, or both are cut after 3."""

    possible_agents = ["a", "b"]
    render_mode = "ansi"

    def __init__(self, is_cut: bool = False) -> None:
        self.is_cut, self.closed = is_cut, False

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0.0, 9.0, (1,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2 if agent == "a" else 3)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.time = list(self.possible_agents), 0
        return {agent: np.zeros(1, np.float32) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions: Any) -> Any:
        assert set(actions) == set(self.agents)
        self.time += 1
        here = self.agents
        over = {agent: not self.is_cut and self.time >= (2 if agent == "a" else 4) for agent in here}
        cut = {agent: self.is_cut and self.time >= 3 for agent in here}
        self.agents = [agent for agent in here if not over[agent] and not cut[agent]]
        seen = {agent: np.full(1, self.time, np.float32) for agent in here}
        return (
            seen,
            {agent: float(action) for agent, action in actions.items()},
            over,
            cut,
            {agent: {} for agent in here},
        )

    def render(self) -> str:
        return f"at {self.time}"

    def close(self) -> None:
        self.closed = True


class ByTurns:
    """Two agents in turn, three moves in all; a move of 1 gives both a point, as long as they wait for it."""

    possible_agents = ["x", "o"]

    def __init__(self, env_config: Any = None) -> None:
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0.0, 9.0, (1,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents, self.moves = list(self.possible_agents), 0
        self.agent_selection = "x"
        self.waiting = dict.fromkeys(self.agents, 0.0)

    def agent_iter(self) -> Any:
        yield from self.agents

    def last(self) -> Any:
        agent = self.agent_selection
        return np.full(1, self.moves, np.float32), self.waiting[agent], self.moves >= 3, False, {}

    def step(self, action: int | None) -> None:
        agent = self.agent_selection
        if action is None:
            self.agents.remove(agent)
            self.agent_selection = self.agents[0] if self.agents else agent
            return
        other = self.possible_agents[1 - self.possible_agents.index(agent)]
        self.waiting[agent] = 0.0
        for each in self.agents:
            self.waiting[each] += float(action)
        self.moves += 1
        self.agent_selection = other

    def close(self) -> None:
        return


def test_agents_act_at_once_and_leave_one_by_one() -> None:
    env = ParallelPettingZooEnv(Together())
    assert env.get_action_space("b") == spaces.Discrete(3)
    assert env.reset(seed=1)[0].keys() == {"a", "b"}
    seen, rewards, over, cut, _ = env.step({"a": 1, "b": 2})
    assert (rewards, over["__all__"], cut["__all__"]) == ({"a": 1.0, "b": 2.0}, False, False)
    _, _, over, _, _ = env.step({"a": 0, "b": 0})
    assert over == {"a": True, "b": False, "__all__": False}
    env.step({"b": 0})
    seen, _, over, cut, _ = env.step({"b": 1})
    assert (seen["b"], over["__all__"], cut["__all__"]) == (4, True, False)
    assert (env.render(), env.render_mode) == ("at 4", "ansi")
    env.close()
    assert env.env.closed


def test_what_is_cut_for_all_is_cut() -> None:
    env = ParallelPettingZooEnv(Together(is_cut=True))
    env.reset()
    ends = [env.step({"a": 0, "b": 0})[2:4] for _ in range(3)]
    assert [(over["__all__"], cut["__all__"]) for over, cut in ends] == [(False, False), (False, False), (False, True)]


def test_by_turns_each_gets_what_came_to_it_since_it_acted() -> None:
    env = PettingZooEnv(ByTurns())
    assert list(env.reset()[0]) == ["x"]
    seen, rewards, over, _, _ = env.step({"x": 1})
    assert (list(seen), rewards, over["__all__"]) == (["o"], {"o": 1.0}, False)
    _, rewards, _, _, _ = env.step({"o": 1})
    assert rewards == {"x": 2.0}
    seen, rewards, over, cut, _ = env.step({"x": 0})
    assert (set(seen), rewards) == ({"x", "o"}, {"o": 1.0, "x": 0.0})
    assert (over, cut["__all__"]) == ({"o": True, "x": True, "__all__": True}, False)


@pytest.mark.parametrize("make", [lambda: ParallelPettingZooEnv(Together()), lambda: PettingZooEnv(ByTurns())])
def test_they_are_environments_of_several_agents(make: Any) -> None:
    check_first_step(make())
    agents = make().possible_agents
    algorithm = (
        PPOConfig()
        .environment(lambda config: make())
        .env_runners(num_env_runners=0, num_envs=2)
        .multi_agent(policies=agents, policy_mapping_fn={agent: agent for agent in agents})
        .training(train_batch_size=64, minibatch_size=32, num_epochs=1, model={"fcnet_hiddens": [4]})
        .build()
    )
    result = algorithm.train()
    assert set(result["learners"]) == set(agents)
    assert result["episode_len_mean"] in (3.0, 4.0)
    algorithm.stop()


def test_the_wrong_kind_is_refused() -> None:
    with pytest.raises(EnvError, match="got ByTurns, whose agents act by turns: PettingZooEnv takes it"):
        ParallelPettingZooEnv(ByTurns())
    with pytest.raises(EnvError, match="PettingZooEnv got Together, which has no agent_iter, last: give an"):
        PettingZooEnv(Together())
