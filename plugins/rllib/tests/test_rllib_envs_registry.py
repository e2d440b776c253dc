"""How environments are named, made, and told which copy they are."""

from __future__ import annotations

import logging
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from kernel_rllib.envs import gymnasium_names
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.games.cart_pole import CartPoleGame
from kernel_rllib.envs.loop import LoopEnv
from kernel_rllib.envs.making import KINDS, make_vector
from kernel_rllib.envs.multi_agent import make_multi_agent
from kernel_rllib.envs.multi_agent_loop import MultiAgentLoop
from kernel_rllib.envs.native import NativeEnv
from kernel_rllib.envs.registry import EnvMaker, env_maker, register_env
from kernel_rllib.envs.task import TaskSettableEnv
from kernel_rllib.errors import EnvError, MissingDependencyError
from kernel_rllib.testing.environments import Counter

from kernel_runs.shared_names import SharedNames
from kernel_runs.trainable import registry as names


@pytest.fixture(autouse=True)
def no_names_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_environments", SharedNames("environment"))


def made(env: Any, **config: Any) -> Any:
    return env_maker(env)(EnvContext(config))


def test_registered_names_come_first() -> None:
    register_env("CartPole-v1", lambda config: ("mine", config))
    assert made("CartPole-v1", x=1) == ("mine", {"x": 1})
    register_env("counter", Counter)
    assert "counter" in names.environment_names()
    with pytest.raises(EnvError, match="^environment 'x' was registered as 3: give a function that takes the env"):
        register_env("x", 3)  # type: ignore[arg-type]


def test_names_of_gymnasium() -> None:
    env = made("CartPole-v1", sutton_barto_reward=True)
    assert isinstance(env.unwrapped, CartPoleEnv) and env.unwrapped._sutton_barto_reward
    assert "PassiveEnvChecker" not in str(env)
    assert made("Pendulum-v0").spec.id == "Pendulum-v1"
    assert made("CartPole-v0").spec.max_episode_steps == 200
    assert made("gymnasium.envs.classic_control:CartPole-v1").spec.id == "CartPole-v1"


def test_older_names_are_those_that_are_gone_and_their_heirs_are_there() -> None:
    for old, (new, difference) in gymnasium_names.RENAMED.items():
        # Releases of gymnasium that still have an older one make that.
        assert old in gymnasium.registry or new in gymnasium.registry
        assert difference and old in gymnasium_names.names() and gymnasium_names.is_known(old)


def test_an_older_name_is_told_of_and_warned_of_by_nobody(
    caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    with caplog.at_level(logging.INFO, "kernel.rllib"):
        made("CartPole-v0")
        assert not caplog.messages
        made("Pendulum-v0")
    assert caplog.messages == ["environment Pendulum-v0 is Pendulum-v1 now, which behaves the same"]
    assert not [warning for warning in recwarn if "out of date" in str(warning.message)]


@pytest.mark.parametrize("name", ["Pingpong-ram-v4", "PingpongDeterministic-v0", "Pingpong-ramNoFrameskip-v4"])
def test_games_of_atari_say_which_library_brings_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(MissingDependencyError, match="comes with the library ale-py, .* Run: pip install ale-py"):
        made(name)


def test_what_gymnasium_can_not_make_is_named() -> None:
    with pytest.raises(EnvError, match="^gymnasium can't make environment 'gymnasium.envs:CartPoles-v1': "):
        made("gymnasium.envs:CartPoles-v1")


def test_classes_get_what_they_take() -> None:
    class One:
        def __init__(self, env_config: Any) -> None:
            self.got = env_config

    class Optional:
        def __init__(self, seeker: Any = None) -> None:
            self.got = seeker

    class Anything:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.got = args[0]

    for env in (One, Optional, Anything):
        found = made(env, size=3).got
        assert isinstance(found, EnvContext) and found == {"size": 3} and not made(env).got

    class Keywords:
        def __init__(self, **settings: Any) -> None:
            self.got = settings

    class Nothing:
        def __init__(self) -> None:
            self.got = "nothing"

    assert made(Keywords, size=3).got == {"size": 3}
    assert made(Nothing, size=3).got == "nothing"
    assert made(CartPoleEnv, sutton_barto_reward=True)._sutton_barto_reward is True
    assert made(lambda: Nothing()).got == "nothing"
    assert made(lambda config: config["size"], size=3) == 3


def test_dotted_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(made("kernel_rllib.envs.games.corridor.SimpleCorridor", corridor_length=3), gymnasium.Env)
    (tmp_path / "maze_for_test.py").write_text("class Maze:\n    def __init__(self, config): self.config = config\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert made("maze_for_test.Maze", x=1).config == {"x": 1}
    with pytest.raises(EnvError, match="module 'maze_for_test' has no 'Maus'"):
        env_maker("maze_for_test.Maus")
    with pytest.raises(EnvError, match="there is no module 'no_such_maze'"):
        env_maker("no_such_maze.Maze")
    (tmp_path / "maze_that_needs.py").write_text("import no_such_library\n")
    with pytest.raises(EnvError, match="its module can't be imported .No module named 'no_such_library'"):
        env_maker("maze_that_needs.Maze")
    sys.modules.pop("maze_for_test")


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("CartPol-v1", "no environment is named 'CartPol-v1'. Did you mean 'CartPole-v1' or"),
        ("Acrobot-v0", "Did you mean 'Acrobot-v1'"),
        ("xyz", "no environment is named 'xyz'. Give own ones a name with register_env"),
        (None, 'no environment is named: pass env="CartPole-v1", a class, or a name given to register_env'),
        ("", "no environment is named: pass"),
        (5, "env is 5, a int: pass a name, a class, or a function that makes one"),
        (Counter(), "itself, but each runner needs copies of its own: pass its class, or a function"),
    ],
)
def test_what_names_nothing(env: Any, words: str) -> None:
    with pytest.raises(EnvError) as caught:
        env_maker(env)
    assert words in str(caught.value)


def test_registered_names_are_near_too() -> None:
    register_env("my_maze", Counter)
    with pytest.raises(EnvError, match="Did you mean 'my_maze'"):
        env_maker("My_Mase")


def test_what_fails_to_be_made_is_named() -> None:
    def broken(config: Any) -> Any:
        raise OSError("no licence")

    with pytest.raises(EnvError) as caught:
        env_maker(broken)(EnvContext({"x": 1}, worker_index=2, vector_index=3))
    assert str(caught.value) == (
        "environment 'broken' can't be made: OSError: no licence (env_config: {'x': 1}, worker_index 2, vector_index 3)"
    )
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(EnvError, match="^the maker of environment '<lambda>' returned None: does it end with"):
        made(lambda config: None)
    with pytest.raises(EnvError, match="'CartPole-v1' can't be made: TypeError: .*unexpected keyword.*'size'"):
        made("CartPole-v1", size=3)


def test_libraries_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(MissingDependencyError, match="comes with the library minigrid.*Run: pip install minigrid"):
        env_maker("MiniGrid-Empty-5x5-v0")
    monkeypatch.setitem(sys.modules, "Box2D", None)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d.lunar_lander", raising=False)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d", raising=False)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d.bipedal_walker", raising=False)
    with pytest.raises(MissingDependencyError, match="^environment 'LunarLander-v2': "):
        made("LunarLander-v2")


def test_packages_register_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    class Arrives:
        """A module that registers its names when it is imported, as ale_py does."""

    def import_it(name: str) -> Any:
        assert name == "ale_py"
        gymnasium.register("PongNoFrameskip-v4", lambda frameskip=1: Counter(frameskip))
        return types.ModuleType("ale_py")

    monkeypatch.setattr(gymnasium_names.importlib, "import_module", import_it)
    before = dict(gymnasium.registry)
    for name in [name for name in before if name.startswith("Pong")]:
        del gymnasium.registry[name]
    try:
        assert made("PongDeterministic-v4").unwrapped.length == 4
        assert made("PongNoFrameskip-v4").unwrapped.length == 1
    finally:
        gymnasium.registry.clear()
        gymnasium.registry.update(before)


def test_makers_go_to_other_processes() -> None:
    register_env("counter", lambda config: Counter(**config))
    for env in ("counter", "CartPole-v1", Counter, lambda: Counter(5)):
        maker = pickle.loads(cloudpickle.dumps(env_maker(env)))
        assert isinstance(maker, EnvMaker) and hasattr(maker(EnvContext()), "step")
    assert repr(env_maker("CartPole-v1")) == "EnvMaker('CartPole-v1')" and env_maker(maker) is maker


def test_the_context_is_a_dict_that_knows_its_place() -> None:
    context = EnvContext({"x": 1}, worker_index=2, vector_index=3, num_workers=4)
    assert context == {"x": 1} and context["x"] == 1 and context.get("y") is None
    assert (context.worker_index, context.vector_index, context.remote, context.recreated_worker) == (
        2,
        3,
        False,
        False,
    )
    assert context.num_workers == context.num_rollout_workers == context.num_env_runners == 4
    copy = context.copy_with_overrides(env_config={"y": 2}, vector_index=0, recreated_worker=True)
    assert copy == {"y": 2} and (copy.worker_index, copy.vector_index, copy.recreated_worker) == (2, 0, True)
    assert context.copy_with_overrides(remote=True) == {"x": 1}
    copy.set_defaults({"y": 5, "z": 6})
    assert copy == {"y": 2, "z": 6}
    again = pickle.loads(pickle.dumps(context))
    assert type(again) is EnvContext and again == context and vars(again) == vars(context)
    assert not EnvContext()


def test_each_lane_is_told_which_it_is() -> None:
    class Told(Counter):
        def __init__(self, config: EnvContext) -> None:
            super().__init__()
            self.place = (config.worker_index, config.vector_index, config.remote)

    env = make_vector(Told, 3, EnvContext(worker_index=2))
    assert env.foreach(lambda inner: inner.place) == [(2, 0, False), (2, 1, False), (2, 2, False)]


def test_the_kinds_of_lanes() -> None:
    assert isinstance(make_vector("CartPole-v1", 2), LoopEnv)
    assert isinstance(make_vector(make_multi_agent("CartPole-v1"), 2), MultiAgentLoop)
    native = make_vector("kernel_rllib.envs.games.catch.Catch", 2, EnvContext({"rows": 5}), kind="native")
    assert isinstance(native, NativeEnv) and native.observation_space.shape == (5, 5)
    assert native.foreach(lambda game: game.settings["rows"]) == [5]
    limited = make_vector("CartPole-v1", 1, kind="native", max_episode_steps=1)
    assert isinstance(limited, NativeEnv) and limited.foreach(lambda game: type(game)) == [CartPoleGame]
    limited.reset([0])
    assert limited.step(_one_action()).truncateds[0]
    vector = make_vector(lambda config: gymnasium.make_vec("CartPole-v1", num_envs=2), 2, kind="native")
    assert vector.foreach(lambda env: env.num_envs) == [2]
    assert "auto" in KINDS


def _one_action() -> Any:
    import numpy as np

    return np.zeros(1, np.int64)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: make_vector("CartPole-v1", kind="fast"),
            "^the kind of lanes is 'fast', but must be one of 'auto', 'loo",
        ),
        (lambda: make_vector("CartPole-v1", 0), "^a runner needs one lane at least, not 0"),
        (lambda: make_vector(lambda: Counter(), 1, kind="native"), "has no native vector: it is no game of numpy"),
        (
            lambda: make_vector(lambda: gymnasium.make_vec("CartPole-v1", num_envs=2), 3),
            "made a vector environment of 2 lanes, and 3 are wanted",
        ),
        (
            lambda: LoopEnv([lambda: make_multi_agent("CartPole-v1")({"num_agents": 2})]),
            "has several agents: its copies are stepped by MultiAgentLoop",
        ),
    ],
)
def test_what_does_not_go_together(call: Any, words: str) -> None:
    with pytest.raises(EnvError, match=words):
        call()


def test_tasks_have_to_be_defined() -> None:
    env = TaskSettableEnv()
    for call in (env.get_task, lambda: env.set_task(1), lambda: env.sample_tasks(1)):
        with pytest.raises(NotImplementedError, match="^TaskSettableEnv has no"):
            call()

    class Levels(Counter, TaskSettableEnv):
        level = 0

        def get_task(self) -> int:
            return self.level

        def set_task(self, task: int) -> None:
            self.level = task

    vector = LoopEnv([Levels] * 2)
    vector.foreach(lambda inner: inner.set_task(3))
    assert vector.foreach(lambda inner: inner.get_task()) == [3, 3]
