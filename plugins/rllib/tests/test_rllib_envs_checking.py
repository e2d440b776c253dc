"""Mistakes that people make in environments: what each one hears, before anything is trained."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.envs.checking import check_env
from kernel_rllib.envs.games.corridor import SimpleCorridor
from kernel_rllib.envs.games.two_step_game import TwoStepGame
from kernel_rllib.envs.multi_agent import ALL, MultiAgentEnv, make_multi_agent
from kernel_rllib.envs.vector_base import VectorEnvBase
from kernel_rllib.errors import EnvError, SpaceError
from kernel_rllib.testing.environments import Counter, Nested


class Maze(gymnasium.Env[Any, Any]):
    """An environment without mistakes, to be spoilt."""

    observation_space: Any = spaces.Box(0, 9, (2,))
    action_space: Any = spaces.Discrete(2)
    count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return np.zeros(2, np.float32), 0.0, self.count >= 5, False, {}

    def close(self) -> None:
        self.closed = True


def spoilt(**attributes: Any) -> Any:
    """Return a maze of which some attributes or methods are others."""
    return type("Maze", (Maze,), attributes)


def stepping(*returned: Any) -> Any:
    return spoilt(step=lambda self, action: returned)


def resetting(returned: Any) -> Any:
    return spoilt(reset=lambda self, **options: returned)


OBS = np.zeros(2, np.float32)


def raises(self: Any, *args: Any, **options: Any) -> Any:
    raise KeyError("door")


MISTAKES: list[tuple[str, Any, type[Exception], str]] = [
    ("no reset", spoilt(reset=None), EnvError, "Maze has no method reset(): an environment needs reset() and step"),
    ("no step", spoilt(step=None), EnvError, "Maze has no method step(): an environment needs reset() and step"),
    ("no observation_space", spoilt(observation_space=None), EnvError, "Maze has no observation_space: set it in __in"),
    ("no action_space", spoilt(action_space=None), EnvError, "Maze has no action_space: set it in __init__"),
    ("a space that is none", spoilt(observation_space=4), EnvError, "Maze.observation_space is 4 (int): it must be a"),
    ("the class of a space", spoilt(action_space=spaces.Discrete), EnvError, "Maze.action_space is <class"),
    (
        "bounds the wrong way round", spoilt(observation_space=spaces.Tuple([_box := spaces.Box(0, 1, (2,))])),
        SpaceError, "Maze.observation_space[0] is",
    ),
    ("actions of text", spoilt(action_space=spaces.Text(3)), SpaceError, "Maze.action_space: Text(1, 3"),
    ("reset returns nothing", resetting(None), EnvError, "Maze.reset() returned None: return (observation, info)"),
    ("reset returns the wrong shape", resetting((np.zeros(3), {})), SpaceError, "Maze.reset() returned an array of sh"),
    ("reset returns beyond the bounds", resetting((np.full(2, 10.0), {})), SpaceError, "element [0] is 10.0, above 9."),
    ("reset returns below the bounds", resetting(([0, -1], {})), SpaceError, "element [1] is -1.0, below 0.0"),
    ("reset returns NaN", resetting(([0, np.nan], {})), SpaceError, "element [1] is nan, which is no number"),
    ("reset returns text", resetting("start"), SpaceError, "Maze.reset() returned 'start' (str) as observation, but"),
    ("reset returns an info that is none", resetting((OBS, None)), SpaceError, "Maze.reset() returned a tuple of 2"),
    ("reset raises", spoilt(reset=raises), EnvError, "Maze.reset(seed=0) raised KeyError: 'door'"),
    ("step raises", spoilt(step=raises), EnvError, "raised KeyError: 'door'"),
    ("step returns nothing", spoilt(step=lambda self, action: None), EnvError, "Maze.step() returned None: return (ob"),
    ("step returns three values", stepping(OBS, 0.0, False), EnvError, "Maze.step() returned 3 values: return (observ"),
    ("step returns six values", stepping(OBS, 0.0, False, False, {}, 1), EnvError, "Maze.step() returned 6 values"),
    ("step returns the wrong shape", stepping(np.zeros((2, 1)), 0.0, False, False, {}), SpaceError, "of shape (2, 1)"),
    ("step returns beyond the bounds", stepping([0, 9.5], 0.0, False, False, {}), SpaceError, "element [1] is 9.5, ab"),
    ("step returns NaN", stepping([np.nan, 0], 0.0, False, False, {}), SpaceError, "element [0] is nan"),
    ("step returns None as observation", stepping(None, 0.0, False, False, {}), SpaceError, "Maze.step() returned Non"),
    ("a reward that is NaN", stepping(OBS, float("nan"), False, False, {}), EnvError, "Maze.step() returned nan as re"),
    ("an infinite reward", stepping(OBS, -np.inf, False, False, {}), EnvError, "Maze.step() returned -inf as reward"),
    ("a reward of two numbers", stepping(OBS, [1, 2], False, False, {}), EnvError, "returned [1, 2] (list) as reward:"),
    ("a reward that is text", stepping(OBS, "1", False, False, {}), EnvError, "returned '1' (str) as reward: return o"),
    ("no reward", stepping(OBS, None, False, False, {}), EnvError, "returned None (NoneType) as reward"),
    ("terminated is None", stepping(OBS, 0.0, None, False, {}), EnvError, "returned None (NoneType) as terminated: re"),
    ("truncated is text", stepping(OBS, 0.0, False, "no", {}), EnvError, "returned 'no' (str) as truncated: return Tr"),
    ("truncated and info exchanged", stepping(OBS, 0.0, False, {}, False), EnvError, "returned {} (dict) as truncated"),
    ("an info that is a list", stepping(OBS, 0.0, False, False, []), EnvError, "returned [] (list) as info: return a"),
    ("a dict without a key", type("Maze", (Nested,), {"seen": lambda self: {"place": 1}}), SpaceError, "without ['pic"),
    ("an index out of range", spoilt(observation_space=spaces.Discrete(2), reset=lambda self, **_: (2, {})), SpaceError,
     "Maze.reset() returned 2 as observation, but observation_space is Discrete(2): return a whole number from 0 to 1"),
    ("a float for an index", spoilt(observation_space=spaces.Discrete(2), reset=lambda self, **_: (0.5, {})),
     SpaceError, "0.5, which is no whole number"),
    ("a path to no module", "no.such.Maze", EnvError, "there is no module 'no'"),
    ("a name with a slip", "CartPole-v11", EnvError, "Did you mean 'CartPole-v1'"),
    ("a maker that forgets to return", lambda config: None, EnvError, "returned None: does it end with `return env`?"),
    ("a constructor with more arguments", type("Maze", (Maze,), {"__init__": lambda self, a, b: None}), EnvError,
     "environment 'Maze' can't be made: TypeError"),
]  # fmt: skip
_box.low[:] = 2  # gymnasium refuses such bounds; who changes them afterwards gets them


@pytest.mark.parametrize(("env", "error", "words"), [case[1:] for case in MISTAKES], ids=[case[0] for case in MISTAKES])
def test_a_mistake_is_named(env: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        check_env(env)
    assert words in str(caught.value)


def test_there_are_as_many_mistakes_as_were_promised() -> None:
    assert len(MISTAKES) >= 40


RIGHT = [Maze, lambda: Counter(), lambda: Nested(), "CartPole-v1", "Pendulum-v1", SimpleCorridor, TwoStepGame,
         make_multi_agent("CartPole-v1")]  # fmt: skip


@pytest.mark.parametrize("env", RIGHT)
def test_what_is_right_passes(env: Any) -> None:
    assert check_env(env, steps=60) == []


class OldCorridor:
    """The example of the documents of 0.8.5."""

    def __init__(self, config: Any) -> None:
        self.end_pos = config.get("corridor_length", 3)
        self.cur_pos = 0
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(0.0, self.end_pos, shape=(1,))

    def reset(self) -> Any:
        self.cur_pos = 0
        return [self.cur_pos]

    def step(self, action: int) -> Any:
        self.cur_pos = max(0, self.cur_pos + (1 if action else -1))
        done = self.cur_pos >= self.end_pos
        return [self.cur_pos], 1 if done else 0, done, {}


def test_environments_of_the_older_interface_pass() -> None:
    assert check_env(OldCorridor, steps=60) == []
    assert check_env(OldCorridor({"corridor_length": 1})) == []


def test_an_environment_that_was_passed_stays_open() -> None:
    env = Maze()
    check_env(env)
    assert not hasattr(env, "closed")
    made: list[Maze] = []

    def make(config: Any) -> Maze:
        made.append(Maze())
        return made[-1]

    check_env(make)
    assert made[0].closed


def test_warnings() -> None:
    endless = spoilt(step=lambda self, action: (OBS, 0.0, False, False, {}))
    (said,) = check_env(endless, steps=7)
    assert said.startswith(
        "Maze: no episode ended within 7 steps, and there is no time limit: have it return terminated"
    )
    assert check_env(gymnasium.wrappers.TimeLimit(endless(), 1000)) == []
    random = spoilt(reset=lambda self, **options: (np.random.default_rng().random(2), {}))
    (said,) = check_env(random, steps=0) if False else check_env(random, steps=5, seed=3)[:1]
    assert said.startswith(
        "Maze: reset(seed=3) gave another observation the second time: call super().reset(seed=seed)"
    )


def test_spaces_may_be_given() -> None:
    bare = spoilt(observation_space=None, action_space=None)
    assert check_env(bare, observation_space=Maze.observation_space, action_space=Maze.action_space) == []


# -- several agents --------------------------------------------------------------------------------------------------


class Pair(MultiAgentEnv):
    """Two agents without mistakes, to be spoilt."""

    observation_space = spaces.Box(0, 9, (1,))
    action_space = spaces.Discrete(2)

    def reset(self, **options: Any) -> Any:
        return {"a": [0], "b": [0]}, {}

    def step(self, action_dict: Any) -> Any:
        return {"a": [1], "b": [1]}, {"a": 1.0, "b": 1.0}, {ALL: True}, {ALL: False}, {}


def pair(**attributes: Any) -> Any:
    return type("Pair", (Pair,), attributes)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (pair(observation_space=None), "Pair has no observation_space for agent 'a': set observation_spaces to a dict"),
        (pair(action_space=None), "Pair has no action_space for agent 'a'"),
        (pair(action_space="two"), "the action_space of agent 'a' is 'two' (str): it must be a space"),
        (pair(action_space=spaces.Text(3)), "can't be an action space"),
        (pair(reset=lambda self, **_: [0]), "Pair.reset() returned [0] (list): a multi-agent environment returns"),
        (pair(reset=lambda self, **_: ({"a": [10]}, {})), "the observation of agent 'a' is outside of its space"),
        (pair(reset=lambda self, **_: {"a": [0, 0]}), "a list of shape (2,) as observation of agent 'a'"),
        (pair(step=lambda self, actions: ({}, {}, {"a": True}, {})), 'without the key "__all__"'),
        (pair(step=lambda self, actions: ({}, {"a": None}, True, {})), "where a dict by agent is expected"),
        (pair(step=lambda self, actions: ({}, {"a": "x"}, {ALL: False}, {})), "the reward of agent 'a' is 'x'"),
        (pair(step=None), "Pair has no method step(): an environment needs reset() and step(action_dict)"),
        (pair(step=raises), "KeyError: 'door'"),
    ],
)
def test_mistakes_of_several_agents(env: Any, words: str) -> None:
    with pytest.raises((EnvError, SpaceError)) as caught:
        check_env(env)
    assert words in str(caught.value)


def test_agents_that_never_end() -> None:
    endless = pair(step=lambda self, actions: ({"a": [1]}, {"a": 1.0}, {ALL: False}, {}))
    (said,) = check_env(endless, steps=6)
    assert said.startswith('Pair: no episode of any agent ended within 6 steps: have it return terminateds["__all__"]')


# -- vectors ---------------------------------------------------------------------------------------------------------


class Many(VectorEnvBase):
    """Two environments without mistakes, to be spoilt."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(spaces.Box(0, 9, (1,)), spaces.Discrete(2), 2)

    def vector_reset(self) -> Any:
        return [[0], [0]]

    def reset_at(self, index: int) -> Any:
        return [0]

    def vector_step(self, actions: Any) -> Any:
        return [[1], [2]], [0, 1], [False, True], [{}, {}]


def test_vectors_are_checked() -> None:
    assert check_env(Many) == []
    assert check_env(Many()) == []
    assert check_env(lambda config: gymnasium.make_vec("CartPole-v1", num_envs=2)) == []
    beyond = type("Many", (Many,), {"vector_reset": lambda self: [[0], [10]]})
    with pytest.raises(SpaceError, match=r"^Many.reset\(\) returned an observation outside of .* in lane 1: element"):
        check_env(beyond)
    short = type("Many", (Many,), {"vector_reset": lambda self: [[0]]})
    with pytest.raises(EnvError, match=r"^Many.vector_reset\(\) returned .* list with an item for each of its 2"):
        check_env(short)

    class Squeezed(gymnasium.vector.VectorEnv[Any, Any, Any]):
        num_envs = 2
        single_observation_space = spaces.Box(0, 1, (1,))
        single_action_space = spaces.Discrete(2)

        def reset(self, **options: Any) -> Any:
            return np.zeros(2, np.float32), {}

    with pytest.raises(
        SpaceError,
        match=r"^Squeezed.reset\(\) returned observations of shape \(2,\) for 2 .*shape \(2, 1\)",
    ):
        check_env(Squeezed())


OBSERVED = spaces.Dict({"action_mask": spaces.Box(0, 1, (4,), np.int8), "obs": spaces.Box(0, 1, (1,), np.float32)})


def masked(allowed: int) -> dict[str, Any]:
    """Return an observation in which one action is allowed."""
    return {"action_mask": np.eye(4, dtype=np.int8)[allowed], "obs": np.zeros(1, np.float32)}


class MaskedAgents(MultiAgentEnv):
    """Two agents, whose one action is another in each step; any other is an error."""

    observation_space, action_space = OBSERVED, spaces.Discrete(4)
    agents = possible_agents = ("a", "b")

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin."""
        self._made = 0
        return self._seen(), {}

    def step(self, actions: Any) -> Any:
        """Raise ValueError for an action that is not allowed."""
        if actions != {"a": self._made % 4, "b": (self._made + 1) % 4}:
            raise ValueError(f"{actions} is not allowed")
        self._made += 1
        ends = {"__all__": self._made == 8}
        return self._seen(), {"a": 0.0, "b": 0.0}, ends, {"__all__": False}, {}

    def _seen(self) -> dict[str, Any]:
        return {"a": masked(self._made % 4), "b": masked((self._made + 1) % 4)}


class MaskedLanes(Many):
    """Two lanes, each with one action that is allowed."""

    def __init__(self, config: Any = None) -> None:
        VectorEnvBase.__init__(self, OBSERVED, spaces.Discrete(4), 2)

    def vector_reset(self) -> Any:
        """Begin."""
        return [masked(1), masked(2)]

    def reset_at(self, index: int) -> Any:
        """Begin one lane."""
        return masked(index + 1)

    def vector_step(self, actions: Any) -> Any:
        """Raise ValueError for actions that are not allowed."""
        if [int(action) for action in actions] != [1, 2]:
            raise ValueError(f"{actions} are not allowed")
        return [masked(1), masked(2)], [0, 1], [False, False], [{}, {}]


def test_masks_of_observations_say_which_actions_are_tried() -> None:
    assert check_env(MaskedAgents()) == []
    assert check_env(MaskedLanes) == []
