"""Configs as objects: copies, frozen ones, pickled ones, equal ones, and values that a search still has to choose."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import threading
from typing import Any

import cloudpickle
import pytest
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.config import NOT_PROVIDED, AlgorithmConfig, PolicySpec, building
from kernel_rllib.config.search_spaces import has_search_space, is_search_space
from kernel_rllib.config.serializing import NOT_SERIALIZABLE
from kernel_rllib.errors import ConfigError, FrozenConfigError, UnknownSettingError


def full_config() -> PPOConfig:
    return (
        PPOConfig(generation="2.x")
        .environment("CartPole-v1", env_config={"sizes": [1, 2]})
        .training(lr=[[0, 1e-3], [10, 1e-4]], model={"fcnet_hiddens": [8], "custom_model_config": {"a": [1]}})
        .multi_agent(policies={"a": PolicySpec(config={"gamma": 0.5}), "b": PolicySpec()})
        .evaluation(evaluation_config={"explore": False})
        .update_from_dict({"of_my_own": {"x": [1]}})
    )


def test_a_copy_shares_nothing() -> None:
    config = full_config()
    for made in (config.copy(), copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert made == config and type(made) is PPOConfig and made.generation == "2.x"
        assert made.explain().text() == config.explain().text()
        made.env_config["sizes"].append(3)
        made.model.fcnet_hiddens.append(3)
        made.model["custom_model_config"]["a"].append(3)
        made.policies["a"].config["gamma"] = 0.1
        made.of_my_own["x"].append(3)
        made.evaluation_config["explore"] = True
        made.lr[0][1] = 0.0
        assert config == full_config()


def test_what_can_not_be_copied_is_shared() -> None:
    lock = threading.Lock()
    config = PPOConfig().environment(env_config={"lock": lock, "sizes": [1]})
    made = config.copy()
    assert made.env_config["lock"] is lock
    made.training(lr=1.0)
    assert config.lr == 5e-5


def test_functions_travel() -> None:
    config = PPOConfig().multi_agent(policies=["a"], policy_mapping_fn=lambda agent, episode: "a")
    made = cloudpickle.loads(cloudpickle.dumps(config))
    assert made.policy_of(3) == "a"


def test_not_provided_stays_what_it_is() -> None:
    assert pickle.loads(pickle.dumps(NOT_PROVIDED)) is NOT_PROVIDED is copy.deepcopy(NOT_PROVIDED)
    assert repr(NOT_PROVIDED) == "NOT_PROVIDED" and not NOT_PROVIDED


CHANGES: list[Any] = [
    lambda config: config.training(lr=1.0),
    lambda config: config.update_from_dict({"lr": 1.0}),
    lambda config: config.update_from_dict({"num_workers": 1}),
    lambda config: config.update_from_dict({"of_my_own": 1}),
    lambda config: setattr(config, "lr", 1.0),
    lambda config: setattr(config, "num_workers", 1),
    lambda config: setattr(config, "of_my_own", 1),
    lambda config: setattr(config, "_hidden", 1),
    lambda config: setattr(config, "algo_class", "A"),
    lambda config: config.__setitem__("lr", 1.0),
    lambda config: config.__setitem__("anything", 1.0),
    lambda config: config.pop("of_my_own"),
    lambda config: config.model.update({"dim": 3}),
    lambda config: setattr(config.model, "dim", 3),
    lambda config: config.training(model={"dim": 3}),
]


@pytest.mark.filterwarnings("ignore:.*older names:DeprecationWarning")
@pytest.mark.parametrize("number", range(len(CHANGES)))
@pytest.mark.parametrize("make", [full_config, lambda: PPOConfig().update_from_dict({"of_my_own": 1})])
def test_a_frozen_config_refuses_changes_with_its_name(number: int, make: Any) -> None:
    config = make()
    config.freeze()
    before = config.copy(copy_frozen=False)
    with pytest.raises(FrozenConfigError, match="^PPOConfig.* is frozen: .* can't be set any more") as raised:
        CHANGES[number](config)
    assert isinstance(raised.value, AttributeError) and "config.copy(copy_frozen=False)" in str(raised.value)
    assert config.is_frozen and config == before
    CHANGES[number](config.copy(copy_frozen=False))


def test_a_copy_is_frozen_as_asked() -> None:
    config = PPOConfig()
    assert not config.copy().is_frozen and config.copy(copy_frozen=True).is_frozen and not config.is_frozen
    config.freeze()
    assert config.copy().is_frozen and config.copy(True).is_frozen and not config.copy(False).is_frozen
    assert not config.copy(copy_frozen=False).model.is_frozen


def test_the_config_of_evaluation_is_frozen_with_it() -> None:
    config = PPOConfig().evaluation(evaluation_config=PPOConfig().training(lr=1.0))
    config.freeze()
    with pytest.raises(FrozenConfigError):
        config.evaluation_config.training(lr=2.0)
    assert not config.copy(copy_frozen=False).evaluation_config.is_frozen


def test_equal_means_the_same_settings_however_they_came_about() -> None:
    assert PPOConfig() == PPOConfig().training(lr=5e-5)
    assert PPOConfig() != PPOConfig().training(lr=5e-4)
    assert PPOConfig() != DQNConfig() and PPOConfig() != {}
    assert PPOConfig() == PPOConfig(algo_class="Mine")
    assert PPOConfig() != PPOConfig(generation="0.8.5")
    with pytest.raises(TypeError, match="unhashable"):
        hash(PPOConfig())


def test_settings_that_are_arrays_are_compared() -> None:
    import numpy as np

    make = lambda last: PPOConfig().environment(env_config={"start": np.array([1, last])})
    assert make(2) == make(2) and make(2) != make(3)


def test_a_config_acts_as_a_dict() -> None:
    config = PPOConfig().training(lr=0.25)
    assert config["lr"] == config.get("lr") == config.pop("lr") == 0.25 == config["lr"]
    assert config.get("nothing", 3) == 3 == config.pop("nothing", 3)
    assert (
        dict(config.items()) == config.to_dict() and {**config}.keys() == dict(config).keys() == config.to_dict().keys()
    )
    assert list(config) == list(config.keys()) and len(config) == len(config.values())
    config["model"] = {"fcnet_hiddens": [8]}
    config["model"] = {"dim": 3}
    assert config.model.fcnet_hiddens == [256, 256], "an item is replaced"
    config.update({"gamma": 0.5}, lr=0.125)
    assert (config.model.dim, config.gamma, config.lr) == (3, 0.5, 0.125)
    config["of_my_own"] = 1
    assert config.pop("of_my_own") == 1 and "of_my_own" not in config
    assert (config | {"gamma": 0.25}).gamma == 0.25 and config.gamma == 0.5
    assert (
        repr(PPOConfig().training(lr=1.0, model={"dim": 3}))
        == "PPOConfig(lr=1.0, model=ModelConfig(vf_share_layers=False, dim=3))"
    )


def test_overrides_are_a_dict_of_settings_that_there_are() -> None:
    assert AlgorithmConfig.overrides(explore=False, num_envs_per_worker=1) == {
        "explore": False,
        "num_envs_per_worker": 1,
    }
    assert PPOConfig.overrides(lambda_=0.5) == {"lambda_": 0.5}
    with pytest.raises(KeyError, match="AlgorithmConfig has no setting 'lambda_'"):
        AlgorithmConfig.overrides(lambda_=0.5)
    with pytest.raises(ConfigError, match="lambda_ is 2, but must be"):
        PPOConfig.overrides(lambda_=2)
    assert issubclass(UnknownSettingError, KeyError)


def test_the_state_of_a_config_makes_it_again() -> None:
    config = full_config()
    state = pickle.loads(pickle.dumps(config.get_state()))
    made = AlgorithmConfig.from_state(state)
    assert made == config and type(made) is PPOConfig and made.generation == "2.x"


class OfThisModule:
    """A class that a path leads to."""


def test_a_serialized_config_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    class Local:
        pass

    config = full_config().callbacks(OfThisModule).training(clip_param=np.float32(0.5))
    config.update_from_dict({"a_set": {2, 1}, "an_array": np.arange(3), "local": Local, "a_tuple": (1, None)})
    config.evaluation(evaluation_config=PPOConfig().training(gamma=0.5))
    config.multi_agent(policy_mapping_fn=lambda agent, episode: "a")
    text = json.loads(json.dumps(config.serialize()))
    assert text["callbacks"] == f"{OfThisModule.__module__}.OfThisModule"
    assert text["policies"] == {"a": [None, None, None, {"gamma": 0.5}], "b": [None, None, None, None]}
    assert text["policy_mapping_fn"] == text["local"] == NOT_SERIALIZABLE
    assert text["evaluation_config"] == {"gamma": 0.5}
    assert (text["a_set"], text["an_array"], text["a_tuple"], text["clip_param"]) == ([1, 2], [0, 1, 2], [1, None], 0.5)
    monkeypatch.setattr(OfThisModule, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "OfThisModule", OfThisModule, raising=False)
    assert config.serialize()["callbacks"] == NOT_SERIALIZABLE, "what is in a program's own file is nowhere else"
    made = PPOConfig.from_dict(text, generation="2.x")
    assert made.policy_of("x") == "default_policy", "what can't be written leaves the setting as it is"
    assert (made.lr, made.model.fcnet_hiddens, made.policies["a"].config) == (config.lr, [8], {"gamma": 0.5})


class Domain:
    """What a library for searching has in place of a value: it is known by these two."""

    domain_str = "some values"

    def sample(self) -> Any:
        return 1

    def __deepcopy__(self, memo: Any) -> Domain:
        return self


GRID = {"grid_search": [1, 2]}
SPACES = [GRID, Domain()]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
@pytest.mark.parametrize("kind", [PPOConfig, DQNConfig, SACConfig], ids=lambda kind: kind.__name__)
def test_a_search_space_survives_in_place_of_any_value(kind: Any, space: Any) -> None:
    for name in kind.fields:
        config = kind.from_dict({name: space})
        assert getattr(config, name) is space
        assert config.to_dict()[kind.names.key_of(name, "current")] == space
    everywhere = kind.from_dict(dict.fromkeys(kind.fields, space))
    assert everywhere.copy() == everywhere == kind.from_dict(everywhere.to_dict())


@pytest.mark.filterwarnings("ignore:.*older names:DeprecationWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda space: {"model": {"fcnet_hiddens": [space, 8]}},
        lambda space: {"model": {"fcnet_hiddens": space}},
        lambda space: {"env_config": {"deep": {"deeper": [space]}}},
        lambda space: {"replay_buffer_config": {"capacity": space}},
        lambda space: {"exploration_config": {"type": space, "x": space}},
        lambda space: {"evaluation_config": {"env_config": {"x": space}}},
        lambda space: {"multiagent": {"policies": {"a": (None, None, None, {"gamma": space})}}},
        lambda space: {"lr": [[0, space], [1000, 0.0]]},
        lambda space: {"use_pytorch": space, "lr_schedule": space, "evaluation_num_episodes": space},
        lambda space: {"prioritized_replay": space, "buffer_size": space, "multiagent": space},
        lambda space: {"of_my_own": [space]},
    ],
)
@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_a_search_space_survives_inside_of_values(make: Any, space: Any) -> None:
    config = DQNConfig.from_dict(make(space))
    for given in (config.to_dict(), config.to_dict("0.8.5")):
        assert has_search_space(given)
        assert DQNConfig.from_dict(given) == config
    with pytest.raises(
        ConfigError, match="still a search space; give the config to a Tuner, which chooses, or set a value"
    ):
        config.validate()


@pytest.mark.filterwarnings("ignore:.*older names:DeprecationWarning")
def test_what_a_search_has_chosen_for_an_older_key_counts() -> None:
    asked = PPOConfig.from_dict(
        {"use_pytorch": {"grid_search": [True, False]}, "lr_schedule": {"grid_search": [None]}}
    ).to_dict()
    chosen = {**asked, "use_pytorch": True, "lr_schedule": [[0, 1.0]]}
    config = PPOConfig.from_dict(chosen)
    assert (config.framework_str, config.lr) == ("torch", [[0, 1.0]])
    again = PPOConfig.from_dict(asked).update_from_dict({"use_pytorch": True, "lr_schedule": None})
    assert again == PPOConfig().framework("torch") and not has_search_space(again.to_dict())


def test_nothing_is_set_inside_of_a_search_space() -> None:
    config = PPOConfig().training(model={"grid_search": [{"dim": 1}, {"dim": 2}]})
    with pytest.raises(
        ConfigError, match="^PPOConfig: model is a search space, so model/dim can't be set inside of it"
    ):
        config.training(model={"dim": 3})
    with pytest.raises(ConfigError, match="env_config is a search space, so env_config/a can't be set"):
        PPOConfig().environment(env_config=Domain()).environment(env_config={"a": 1})


def test_search_spaces_are_known_by_what_they_can_do() -> None:
    import gymnasium

    assert all(map(is_search_space, SPACES))
    assert not is_search_space(gymnasium.spaces.Discrete(2)) and not is_search_space({"grid_search": 1, "b": 2})
    assert not is_search_space(Domain)


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    built: list[Any] = []
    monkeypatch.setattr(building, "_builder", None)
    monkeypatch.setattr(building, "_resolver", None)
    building.set_builder(lambda *given: built.append(given) or "algorithm", {"PPO": dict, "Mine": list}.__getitem__)
    return built


def test_building_is_left_to_the_algorithms(builder: list[Any]) -> None:
    config = PPOConfig().environment("A")
    assert config.build_algo() == config.build(env="B", logger_creator=len) == "algorithm"
    assert config.build(use_copy=False) == PPOConfig("Mine").build() == "algorithm"
    kinds, configs, loggers = zip(*builder, strict=True)
    assert kinds == (dict, dict, dict, list) and loggers == (None, len, None, None)
    assert [each.env for each in configs] == ["A", "B", "A", None]
    assert configs[0] == config and configs[0] is not config and configs[2] is config
    assert config.env == "A" and config.algo_class is dict


def test_a_frozen_config_builds_a_copy_that_can_be_set_up(builder: list[Any]) -> None:
    config = PPOConfig()
    config.freeze()
    config.build(env="B")
    assert builder[0][1].env == "B" and not builder[0][1].is_frozen


def test_without_algorithms_nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_builder", None)
    monkeypatch.setattr(building, "_resolver", None)
    with pytest.raises(
        ConfigError, match="PPOConfig can't be built: no algorithms are loaded; import kernel_rllib.algorithms first"
    ):
        PPOConfig().build()
    with pytest.raises(
        ConfigError, match="AlgorithmConfig names no algorithm, so nothing can be built of it: take the"
    ):
        AlgorithmConfig().build()
    assert PPOConfig().algo_class == "PPO" and AlgorithmConfig().algo_class is None


def test_a_generation_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError) as raised:
        PPOConfig(generation="0.8")  # type: ignore[arg-type]
    assert str(raised.value) == (
        "PPOConfig: generation is '0.8', but there are 0.8.5, 1.x, 2.x, current; did you mean '0.8.5'?"
    )
