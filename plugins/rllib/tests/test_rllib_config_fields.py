"""Each setting is checked where it is set: what it can be, and what is said of what it can't."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.config import AlgorithmConfig, Default, Field
from kernel_rllib.config.generations import GENERATIONS, values
from kernel_rllib.config.settings_dict import DictSettings
from kernel_rllib.config.value_types import Mismatch, described, fitted
from kernel_rllib.errors import ConfigError, RLlibError, UnknownSettingError

pytestmark = pytest.mark.filterwarnings("ignore:.*older names:DeprecationWarning")

GOOD: list[tuple[Any, str, Any, Any]] = [
    (AlgorithmConfig, "num_env_runners", 1e3, 1000),
    (AlgorithmConfig, "num_env_runners", np.int64(3), 3),
    (AlgorithmConfig, "gamma", 1, 1),
    (AlgorithmConfig, "gamma", np.float32(0.5), 0.5),
    (AlgorithmConfig, "lr", [[0, 1e-3], [10, 1e-4]], [[0, 1e-3], [10, 1e-4]]),
    (AlgorithmConfig, "lr", [(0, 1e-3), (10, 1e-4)], [[0, 1e-3], [10, 1e-4]]),
    (AlgorithmConfig, "lr", {"type": "ExponentialSchedule"}, {"type": "ExponentialSchedule"}),
    (AlgorithmConfig, "rollout_fragment_length", "auto", "auto"),
    (AlgorithmConfig, "seed", None, None),
    (AlgorithmConfig, "explore", np.bool_(False), False),
    (AlgorithmConfig, "clip_rewards", True, True),
    (AlgorithmConfig, "clip_rewards", [-1, 1], (-1, 1)),
    (AlgorithmConfig, "clip_rewards", 0.5, 0.5),
    (AlgorithmConfig, "log_level", "warning", "WARN"),
    (AlgorithmConfig, "log_level", "debug", "DEBUG"),
    (AlgorithmConfig, "framework_str", "PyTorch", "torch"),
    (AlgorithmConfig, "framework_str", None, "auto"),
    (AlgorithmConfig, "policies_to_train", {"b", "a"}, ["a", "b"]),
    (AlgorithmConfig, "optimizer", None, {}),
    (AlgorithmConfig, "env_config", None, {}),
    (AlgorithmConfig, "output_compress_columns", ("obs",), ["obs"]),
    (AlgorithmConfig, "env", dict, dict),
    (AlgorithmConfig, "input_", {"sampler": 0.5, "/tmp/*.json": 0.5}, {"sampler": 0.5, "/tmp/*.json": 0.5}),
    (AlgorithmConfig, "callbacks_class", {"on_train_result": len}, {"on_train_result": len}),
    (AlgorithmConfig, "callbacks_on_episode_end", [len, len], [len, len]),
    (PPOConfig, "vf_clip_param", float("inf"), float("inf")),
    (SACConfig, "n_step", [1, 5], (1, 5)),
    (SACConfig, "target_entropy", -3, -3),
    (SACConfig, "target_entropy", "auto", "auto"),
    (DQNConfig, "epsilon", [[0, 1.0], [1000, 0.0]], [[0, 1.0], [1000, 0.0]]),
]


@pytest.mark.parametrize(("kind", "name", "given", "kept"), GOOD)
def test_a_value_that_can_be_is_kept(kind: Any, name: str, given: Any, kept: Any) -> None:
    for settings in (kind(), kind.from_dict({name: given})):
        setattr(settings, name, given)
        value = getattr(settings, name)
        assert value == kept and type(value) is type(kept)


BAD: list[tuple[Any, str, Any, str]] = [
    (AlgorithmConfig, "num_env_runners", -2, "num_env_runners is -2, but must be a whole number from 0 on"),
    (AlgorithmConfig, "num_env_runners", 1.5, "num_env_runners is 1.5, but must be a whole number from 0 on"),
    (AlgorithmConfig, "num_env_runners", True, "num_env_runners is True, but must be a whole number from 0 on"),
    (AlgorithmConfig, "num_env_runners", "2", "num_env_runners is '2', but must be a whole number from 0 on"),
    (AlgorithmConfig, "num_env_runners", None, "num_env_runners is None, but must be a whole number from 0 on"),
    (AlgorithmConfig, "num_envs_per_env_runner", 0, "must be a whole number from 1 on"),
    (AlgorithmConfig, "gamma", 1.01, "gamma is 1.01, but must be a number from 0 to 1"),
    (AlgorithmConfig, "gamma", float("nan"), "gamma is nan, but must be a number from 0 to 1"),
    (AlgorithmConfig, "gamma", np.zeros(3), "but must be a number from 0 to 1"),
    (AlgorithmConfig, "lr", "5e-5",
     "None; numbers from 0 on; YAML takes a number with an exponent for text unless it has"),
    (AlgorithmConfig, "lr", [[0, -1.0]],
     "lr is [[0, -1.0]], but must be a number, a list of [timestep, value] pairs, a dict or"),
    (AlgorithmConfig, "grad_clip", 0, "grad_clip is 0, but must be a number or None; numbers above 0"),
    (AlgorithmConfig, "batch_mode", "complete", "'complete_episodes'; did you mean 'complete_episodes'?"),
    (AlgorithmConfig, "grad_clip_by", "max", "grad_clip_by is 'max', but must be 'global_norm', 'norm' or 'value'"),
    (AlgorithmConfig, "rollout_fragment_length", "all",
     "must be a whole number or 'auto'; numbers from 1 on (env steps)"),
    (AlgorithmConfig, "train_batch_size", 0,
     "train_batch_size is 0: it counts env steps, from 1 on; -1 has it follow from"),
    (AlgorithmConfig, "log_level", "LOUD", "must be 'DEBUG', 'INFO', 'WARN' or 'ERROR'"),
    (AlgorithmConfig, "framework_str", "jax", "must be 'auto', 'numpy', 'torch', 'tf' or 'tf2'"),
    (AlgorithmConfig, "framework_str", "torhc", "did you mean 'torch'?"),
    (AlgorithmConfig, "placement_strategy", "spread", "must be 'PACK', 'SPREAD', 'STRICT_PACK' or 'STRICT_SPREAD'"),
    (AlgorithmConfig, "observation_filter", "MeanStd", "did you mean 'MeanStdFilter'?"),
    (AlgorithmConfig, "explore", 1, "explore is 1, but must be True or False"),
    (AlgorithmConfig, "env", 3, "env is 3: an environment is a registered name, a class, or a function that makes one"),
    (AlgorithmConfig, "env", "", "env is '': it is empty; name an environment"),
    (AlgorithmConfig, "env_config", [1], "env_config is [1], but must be a dict"),
    (AlgorithmConfig, "clip_rewards", -1.0,
     "clip_rewards is -1.0: rewards are clipped to [-value, value], so it must be"),
    (AlgorithmConfig, "clip_rewards", (2, 1), "the lower bound is above the upper one"),
    (AlgorithmConfig, "seed", "x", "seed is 'x', but must be a whole number or None; numbers from 0 on"),
    (AlgorithmConfig, "policy_mapping_fn", 3, "policy_mapping_fn is 3, but must be a function"),
    (AlgorithmConfig, "policies_to_train", "a",
     "policies_to_train is 'a': it is a list of policies, a function of a policy"),
    (AlgorithmConfig, "policies", 3, "policies is 3, but must be a dict"),
    (AlgorithmConfig, "policies", {"a": (1, 2)},
     "'a' must have a PolicySpec or (class, observation space, action space"),
    (AlgorithmConfig, "policies", {"a": (None, None, None, 3)}, "the config of 'a' must be a dict or a config, not 3"),
    (AlgorithmConfig, "policies", {"a/b"},
     "'a/b' is no id of a policy: it must be text without any of <>:\"/\\|?*, and not"),
    (AlgorithmConfig, "policies", {"a."}, "'a.' is no id of a policy"),
    (AlgorithmConfig, "policies", [1], "1 is no id of a policy"),
    (AlgorithmConfig, "callbacks_class", 3,
     "callbacks_class is 3: it is a class of callbacks, a function that returns an"),
    (AlgorithmConfig, "callbacks_class", [], "a list of these, or a dict of functions"),
    (AlgorithmConfig, "input_", {"sampler": -1}, "the share of 'sampler' must be a number from 0 on"),
    (AlgorithmConfig, "input_", {"sampler": 0}, "the shares add up to nothing"),
    (AlgorithmConfig, "input_", [], "it is empty; name a source, or 'sampler' for the environment"),
    (AlgorithmConfig, "input_config", {"parallelism": 3}, "parallelism is not set here, but by num_env_runners"),
    (AlgorithmConfig, "extra_python_environs_for_driver", {"A": 1}, "the value of A must be text, as variables of the"),
    (AlgorithmConfig, "evaluation_duration", 0,
     "must be a whole number or 'auto'; numbers from 1 on (in evaluation_duration_unit)"),
    (AlgorithmConfig, "recovery", "exactly", "must be 'exact', 'ignore', 'recreate' or None; did you mean 'exact'?"),
    (AlgorithmConfig, "model", 3, "model is 3, but must be a dict or a ModelConfig"),
    (PPOConfig, "lambda_", 1.5, "PPOConfig: lambda_ is 1.5, but must be a number from 0 to 1"),
    (PPOConfig, "clip_param", 0, "clip_param is 0, but must be a number above 0"),
    (PPOConfig, "entropy_coeff", [[0, 0.1], [9, -1]], "entropy_coeff is [[0, 0.1], [9, -1]], but must be"),
    (DQNConfig, "hiddens", [256, 0], "hiddens is [256, 0], but must be a list of whole numbers from 1 on"),
    (DQNConfig, "hiddens", 256, "hiddens is 256, but must be a list of whole numbers from 1 on"),
    (DQNConfig, "tau", 0, "tau is 0, but must be a number above 0 and up to 1"),
    (DQNConfig, "tau", 1.1, "tau is 1.1, but must be a number above 0 and up to 1"),
    (DQNConfig, "n_step", 0, "n_step is 0: it is 1 step or more"),
    (DQNConfig, "n_step", (5, 1), "n_step is (5, 1): the lower bound is above the upper one"),
    (DQNConfig, "td_error_loss_fn", "l1", "must be 'huber' or 'mse'"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "given", "said"), BAD)
def test_a_value_that_can_not_be_is_refused_where_it_is_set(kind: Any, name: str, given: Any, said: str) -> None:
    settings = kind()
    ways = (lambda: setattr(settings, name, given), lambda: settings.update_from_dict({name: given}))
    for way in ways:
        with pytest.raises(ConfigError) as raised:
            way()
        assert said in str(raised.value) and str(raised.value).startswith(kind.__name__)
        assert isinstance(raised.value, ValueError) and isinstance(raised.value, RLlibError)
    assert settings == kind()


def test_a_long_value_is_cut() -> None:
    with pytest.raises(ConfigError) as raised:
        AlgorithmConfig().seed = "x" * 1000  # type: ignore[assignment]
    assert len(str(raised.value)) < 250 and "xxx..." in str(raised.value)


class Own(DictSettings):
    """Settings as an algorithm's file declares them."""

    section = "training"

    rate = Field(0.5, "How fast.", older={"2.x": 0.25, "0.8.5": 0.125}, range=(0, 1), unit="per step")
    kind = Field[Literal["a", "b"] | None](None, "Which.", old=("sort", "species"))
    sizes = Field[list[int]]([1, 2], "How large.", range=(None, 9))
    options = Field[dict[str, Any]]({"a": {"x": 1}, "type": "T"}, "What else.", merge=True)
    plain = Field[dict[str, Any] | None]({"a": 1}, "What is not merged.")


class Derived(Own):
    """Settings that have other defaults."""

    defaults = values(
        rate=0.1,
        kind=Default("a", older={"1.x": "b"}),
        options=values(a=values(y=2), type="T"),
        sizes=[3],
        plain={"b": 2},
    )


def test_a_declaration_is_all_there_is() -> None:
    assert list(Own.fields) == ["rate", "kind", "sizes", "options", "plain"]
    assert [Own(), Own()] == [Own(), Own()]
    assert (Own.rate.expected, Own.kind.expected) == ("a number from 0 to 1 (per step)", "'a', 'b' or None")
    assert Own.sizes.expected == "a list of whole numbers up to 9"
    assert (Own.rate.doc, Own.rate.__doc__, Own.rate.name, Own.rate.section) == (
        "How fast.",
        "How fast.",
        "rate",
        "training",
    )
    assert repr(Own.rate) == "Field(rate: a number from 0 to 1 (per step), default 0.5)"
    own = Own()
    own.update({"sort": "a"})
    own["species"] = "b"
    assert (own.kind, own["sort"], own.sort) == ("b", "b", "b")


def test_a_generation_that_is_not_named_has_the_default_of_the_next_newer_one() -> None:
    assert [Own.default_dict(each)["rate"] for each in GENERATIONS] == [0.125, 0.25, 0.25, 0.5]
    assert [Derived.default_dict(each)["rate"] for each in GENERATIONS] == [0.1] * 4
    assert [Derived.default_dict(each).get("kind", Derived.default_dict(each).get("sort")) for each in GENERATIONS] == [
        "b", "b", "a", "a",
    ]  # fmt: skip


def test_a_default_dict_is_merged_into_the_inherited_one() -> None:
    assert Derived().options == {"a": {"x": 1, "y": 2}, "type": "T"}
    assert Derived().sizes == [3] and Own().sizes == [1, 2]
    assert Derived().plain == {"b": 2}

    class Without(Own):
        defaults = values(options={}, plain=None)

    assert Without().options == Own().options and Without().plain is None


def test_a_default_of_a_setting_that_there_is_not_is_refused() -> None:
    with pytest.raises(UnknownSettingError, match=r"Wrong.defaults: there is no setting 'rat'; did you mean 'rate'\?"):

        class Wrong(Own):
            defaults = values(rat=1)


def test_a_default_that_can_not_be_is_refused() -> None:
    class Wrong(Own):
        defaults = values(rate=2)

    with pytest.raises(ConfigError, match=r"^Wrong.defaults: rate is 2, but must be a number from 0 to 1 \(per step\)"):
        _ = Wrong().rate


def test_dicts_are_merged_and_replaced_where_their_type_is_another() -> None:
    own = Own()
    own.update({"options": {"a": {"y": 2}}})
    assert own.options == {"a": {"x": 1, "y": 2}, "type": "T"}
    own.update({"options": {"type": "U", "b": 1}})
    assert own.options == {"type": "U", "b": 1}
    own.options = {"c": 1}
    assert own.options == {"c": 1}


def test_defaults_are_not_shared() -> None:
    own = Own()
    own.sizes.append(3)
    own.options["a"]["x"] = 2
    assert (Own().sizes, Own().options) == ([1, 2], {"a": {"x": 1}, "type": "T"})
    assert own.sizes == [1, 2, 3] and not own.is_default("sizes") and not own.is_set("sizes")


@pytest.mark.parametrize(
    ("wanted", "given", "kept"),
    [
        (int, np.int8(3), 3),
        (float, np.float16(0.5), 0.5),
        (float, np.array(0.5), 0.5),
        (tuple[int, int], [1, 2], (1, 2)),
        (tuple, [1, 2], (1, 2)),
        (list, (1, "a"), [1, "a"]),
        (type, int, int),
        (int | str, "a", "a"),
        (Any, None, None),
    ],
)
def test_near_kin_is_taken(wanted: Any, given: Any, kept: Any) -> None:
    value = fitted(given, wanted)
    assert value == kept and type(value) is type(kept)


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (int, np.bool_(True)),
        (int, 1.5),
        (float, "1"),
        (float, np.bool_(True)),
        (float, np.zeros(2)),
        (bool, 0),
        (tuple[int, int], [1]),
        (tuple, "ab"),
        (list[int], [1, "a"]),
        (list[int], "12"),
        (type, 3),
        (None, 0),
        (Literal[1], True),
        (dict, [1]),
    ],
)
def test_what_is_no_kin_is_not(wanted: Any, given: Any) -> None:
    with pytest.raises(Mismatch):
        fitted(given, wanted)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (int | None, "a whole number or None"),
        (list[int], "a list of whole numbers"),
        (list[float] | list[str], "a list of numbers or a list of texts"),
        (list[Any], "a list"),
        (DictSettings, "a DictSettings"),
        (dict[str, Any] | type, "a dict or a class"),
        (bool | tuple[int, int], "True or False or a tuple"),
    ],
)
def test_a_type_is_told_in_words(wanted: Any, words: str) -> None:
    assert described(wanted) == words


class _First:
    """Declares types first that are equal to those of others, but are written in another order."""

    number = Field[int | float](1, "A number.")
    choice = Field[Literal["zinc", "iron"]]("iron", "A choice.")
    either = Field[Literal["zinc", "iron"] | None](None, "A choice, or none.")


class _Second:
    """Declares them after that, in its own order."""

    number = Field[float | int](1.0, "A number.")
    choice = Field[Literal["iron", "zinc"]]("iron", "A choice.")
    either = Field[Literal["iron", "zinc"] | None](None, "A choice, or none.")


def test_a_type_does_not_depend_on_what_was_declared_before() -> None:
    assert [type(each.number.accepted(2.0, "")) for each in (_First, _Second)] == [int, float]
    assert [each.choice.expected for each in (_First, _Second)] == ["'zinc' or 'iron'", "'iron' or 'zinc'"]
    assert [each.either.expected for each in (_First, _Second)] == ["'iron', 'zinc' or None"] * 2
