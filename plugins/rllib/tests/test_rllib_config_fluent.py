"""Fluent methods: their signatures, which editors show, are those of the fields, and what they set is set."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from kernel_rllib.algorithms.a2c import A2CConfig
from kernel_rllib.algorithms.a3c import A3CConfig
from kernel_rllib.algorithms.alpha_star import AlphaStarConfig
from kernel_rllib.algorithms.alpha_zero import AlphaZeroConfig
from kernel_rllib.algorithms.apex_ddpg import ApexDDPGConfig
from kernel_rllib.algorithms.apex_dqn import ApexDQNConfig
from kernel_rllib.algorithms.apex_qmix import ApexQMIXConfig
from kernel_rllib.algorithms.appo import APPOConfig
from kernel_rllib.algorithms.ars import ARSConfig
from kernel_rllib.algorithms.bandit import BanditConfig, BanditLinTSConfig, BanditLinUCBConfig
from kernel_rllib.algorithms.bc import BCConfig
from kernel_rllib.algorithms.cql import CQLConfig
from kernel_rllib.algorithms.crr import CRRConfig
from kernel_rllib.algorithms.ddpg import DDPGConfig
from kernel_rllib.algorithms.ddppo import DDPPOConfig
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.dreamer import DreamerConfig
from kernel_rllib.algorithms.dreamerv3 import DreamerV3Config
from kernel_rllib.algorithms.dt import DTConfig
from kernel_rllib.algorithms.es import ESConfig
from kernel_rllib.algorithms.impala import IMPALAConfig
from kernel_rllib.algorithms.iql import IQLConfig
from kernel_rllib.algorithms.iqn import IQNConfig
from kernel_rllib.algorithms.maddpg import MADDPGConfig
from kernel_rllib.algorithms.maml import MAMLConfig
from kernel_rllib.algorithms.marwil import MARWILConfig
from kernel_rllib.algorithms.mbmpo import MBMPOConfig
from kernel_rllib.algorithms.pg import PGConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.algorithms.qmix import QMIXConfig
from kernel_rllib.algorithms.qrdqn import QRDQNConfig
from kernel_rllib.algorithms.r2d2 import R2D2Config
from kernel_rllib.algorithms.random_agent import RandomAgentConfig
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.algorithms.simple_q import SimpleQConfig
from kernel_rllib.algorithms.slateq import SlateQConfig
from kernel_rllib.algorithms.td3 import TD3Config
from kernel_rllib.algorithms.tqc import TQCConfig
from kernel_rllib.config import NOT_PROVIDED, AlgorithmConfig, DefaultModelConfig, ModelConfig
from kernel_rllib.config.off_policy import OffPolicyArguments, OffPolicyConfig
from kernel_rllib.config.sections.callbacks import _EVENTS
from kernel_rllib.config.sections.training import Training, TrainingArguments
from kernel_rllib.errors import UnknownSettingError

CLASSES = (
    AlgorithmConfig, PGConfig, A2CConfig, A3CConfig, PPOConfig, DDPPOConfig, SimpleQConfig, DQNConfig, SACConfig,
    DDPGConfig, TD3Config, ESConfig, ARSConfig, IMPALAConfig, APPOConfig, QMIXConfig, QRDQNConfig,
    IQNConfig, MADDPGConfig, TQCConfig, ApexDQNConfig, ApexDDPGConfig, ApexQMIXConfig, MARWILConfig, BCConfig,
    BanditConfig, BanditLinUCBConfig, BanditLinTSConfig, RandomAgentConfig,
    R2D2Config, SlateQConfig, AlphaZeroConfig, AlphaStarConfig,
    MAMLConfig, MBMPOConfig, CQLConfig, DreamerV3Config, DreamerConfig, CRRConfig, DTConfig,
    IQLConfig,
)  # fmt: skip
SECTIONS = (
    "environment", "env_runners", "exploration", "training", "learners", "rl_module", "multi_agent", "evaluation",
    "offline_data", "callbacks", "reporting", "checkpointing", "debugging", "fault_tolerance", "resources",
    "framework", "api_stack", "python_environment", "experimental",
)  # fmt: skip
CALLED_OTHERWISE = {
    "framework": "framework_str",
    "model_config": "model",
    "model_config_dict": "model",
    "dataset_num_iters_per_offline_eval_runner": "dataset_num_iters_per_eval_runner",
    **{f"on_{event}": f"callbacks_on_{event}" for event in _EVENTS},
}
"""Arguments whose settings have another name."""
WIDER = {"env", "model", "model_config", "model_config_dict", "evaluation_config", "policies", "policy_mapping_fn",
         "mcts_config", "ranked_rewards", "league_builder_config", "replay_buffer_config",
         "policies_to_train", "callbacks_class", "observation_space", "action_space", "input_filesystem",
         "output_filesystem", "rl_module_spec", "q_model_config", "policy_model_config"}  # fmt: skip
"""Arguments that take more than what is kept of them."""


def alternatives(annotation: Any) -> set[Any]:
    """Return what an annotation allows: the members of a union, the options of a Literal."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return set(map(repr, arguments))
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return set().union(*map(alternatives, arguments))
    return {repr(annotation)}


def parameters(method: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the arguments of a method with their defaults and annotations, without `self` and `**common`."""
    plain = inspect.unwrap(method)
    for name, parameter in list(inspect.signature(plain).parameters.items())[1:]:
        if parameter.kind is not parameter.VAR_KEYWORD:
            yield name, parameter.default, eval(parameter.annotation, vars(sys.modules[plain.__module__]))


def unpacked(method: Any) -> set[str]:
    """Return the arguments that a method takes by `**common: Unpack[...]`."""
    plain = inspect.unwrap(method)
    common = inspect.signature(plain).parameters.get("common")
    name = common.annotation.removeprefix("Unpack[").removesuffix("]") if common else "dict"
    return set(typing.get_type_hints(vars(sys.modules[plain.__module__]).get(name, dict)))


def methods(kind: Any) -> Iterator[tuple[str, Any]]:
    for name in (*SECTIONS, "rollouts"):
        for base in kind.__mro__:
            if name in vars(base):
                yield name, vars(base)[name]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_argument_is_a_setting_of_its_type(kind: Any) -> None:
    for section, method in methods(kind):
        for name, default, annotation in parameters(method):
            assert default is NOT_PROVIDED, f"{section}({name}) changes what it isn't given"
            row = kind.names.find(CALLED_OTHERWISE.get(name, name))
            assert row is not None, f"{section}({name}) sets nothing"
            path = getattr(row, "path", ())
            if len(path) == 1 and name not in WIDER:
                field = kind.fields[path[0]]
                missing = alternatives(field.type) - alternatives(annotation)
                assert not missing, f"{section}({name}: {annotation}) does not allow {missing}"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_setting_is_an_argument_of_the_method_of_its_section(kind: Any) -> None:
    for name, field in kind.fields.items():
        assert field.section in SECTIONS, f"{name} is in no section"
        taken = {
            CALLED_OTHERWISE.get(argument, argument)
            for section, method in methods(kind)
            if section == field.section
            for argument in (*(each for each, _, _ in parameters(method)), *unpacked(method))
        }
        assert name in taken, f"{field.section}() does not take {name}"


@pytest.mark.parametrize(
    "kind", [each for each in CLASSES[1:] if each not in (TD3Config, PGConfig)], ids=lambda kind: kind.__name__
)
def test_training_of_an_algorithm_shows_its_own_settings(kind: Any) -> None:
    """Those of its bases among the algorithms too; the others are in the TypedDict that `**common` is unpacked from."""
    own = [
        name
        for name, field in kind.fields.items()
        if field.section == "training" and not hasattr(OffPolicyConfig, name)
    ]
    shown = [name for name, _, _ in parameters(kind.training)]
    assert set(own) <= set(shown)
    common = inspect.signature(inspect.unwrap(kind.training)).parameters["common"].annotation
    assert common == f"Unpack[{'OffPolicyArguments' if issubclass(kind, OffPolicyConfig) else 'TrainingArguments'}]"


def test_the_common_arguments_are_those_of_the_common_method() -> None:
    method = {name: annotation for name, _, annotation in parameters(Training.training)}
    assert typing.get_type_hints(TrainingArguments) == method
    own = {name for name in vars(OffPolicyConfig) if name in OffPolicyConfig.fields}
    assert set(OffPolicyArguments.__annotations__) - set(TrainingArguments.__annotations__) == own


def test_the_options_of_a_default_model_config_are_options_of_models() -> None:
    shown = dict(list(inspect.signature(DefaultModelConfig.__init__).parameters.items())[1:])
    assert set(shown) <= set(ModelConfig.fields)
    assert all(parameter.default is NOT_PROVIDED for parameter in shown.values())
    assert DefaultModelConfig(fcnet_hiddens=[8], use_lstm=True).set_values() == {"fcnet_hiddens": [8], "use_lstm": True}


@pytest.mark.filterwarnings("ignore:.*older names:DeprecationWarning")
def test_calls_are_chained_in_any_order_and_set_what_they_say() -> None:
    config = PPOConfig()
    assert (
        config.training(lr=0.1, clip_param=0.2)
        .environment("CartPole-v1", env_config={"a": 1})
        .resources(num_gpus=0)
        .env_runners(num_env_runners=1)
        .callbacks(dict, on_episode_end=len)
        .framework("torch", eager_tracing=False)
        .multi_agent(policies={"a"})
        .evaluation(evaluation_interval=3)
        .checkpointing(True)
        .api_stack(False, False)
        is config
    )
    assert (config.lr, config.clip_param, config.env, config.env_config) == (0.1, 0.2, "CartPole-v1", {"a": 1})
    assert (config.callbacks_class, config.callbacks_on_episode_end) == (dict, len)
    assert (config.framework_str, config["framework"], list(config.policies)) == ("torch", "torch", ["a"])
    assert config.export_native_model_files and not config.enable_env_runner_and_connector_v2


def test_none_is_a_value_and_what_is_not_given_is_left() -> None:
    config = PPOConfig().training(grad_clip=3.0).debugging(seed=7)
    config.training(grad_clip=None, lr=NOT_PROVIDED).debugging()
    assert (config.grad_clip, config.seed, config.lr) == (None, 7, 5e-5)
    assert config.is_set("grad_clip") and not config.is_set("lr")


def test_dicts_are_merged_by_calls_and_replaced_by_assignments() -> None:
    config = PPOConfig().environment(env_config={"a": 1}).environment(env_config={"b": 2})
    assert config.env_config == {"a": 1, "b": 2}
    config.env_config = {"c": 3}
    assert config.env_config == {"c": 3}
    config.training(model={"fcnet_hiddens": [8]}).training(model={"use_lstm": True})
    assert (config.model.fcnet_hiddens, config.model.use_lstm, config.model.vf_share_layers) == ([8], True, False)
    config.model = {"dim": 42}
    assert (config.model.fcnet_hiddens, config.model.dim, config.model.vf_share_layers) == ([256, 256], 42, False)


@pytest.mark.filterwarnings("ignore:.*older names:DeprecationWarning")
def test_older_arguments_are_taken_where_their_section_is() -> None:
    config = PPOConfig().training(num_sgd_iter=3, **{"lambda": 0.5}).env_runners(num_rollout_workers=5)
    config.rollouts(num_rollout_workers=6, recreate_failed_workers=False, horizon=9)
    config.resources(num_cpus_per_worker=2, num_learner_workers=1)
    assert (config.num_epochs, config.lambda_, config.num_env_runners, config.horizon) == (3, 0.5, 6, 9)
    assert (config.num_cpus_per_env_runner, config.num_learners) == (2, 1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda c: c.training(lrr=1), "PPOConfig.training() has no argument 'lrr'; did you mean 'lr'?"),
        (lambda c: c.training(clip_parm=1),
         "PPOConfig.training() has no argument 'clip_parm'; did you mean 'clip_param'?"),
        (lambda c: c.training(num_env_runners=1),
         "has no argument 'num_env_runners'; it is an argument of .env_runners()"),
        (lambda c: c.env_runners(gamma=1),
         "PPOConfig.env_runners() has no argument 'gamma'; it is an argument of .training()"),
        (lambda c: c.training(learning_rate=1), "PPOConfig.training() has no argument 'learning_rate'; it is lr"),
        (lambda c: c.env_runners(sample_timeout=1), "no argument 'sample_timeout'; it is sample_timeout_s, in seconds"),
        (lambda c: c.evaluation(interval=1), "PPOConfig.evaluation() has no argument 'interval'"),
        (lambda c: c.debugging(zzz=1), "PPOConfig.debugging() has no argument 'zzz'"),
        (lambda c: c.training(num_atoms=1), "PPOConfig.training() has no argument 'num_atoms'"),
        (lambda c: c.environment("a", "b"),
         "takes 1 arguments by place, but 2 were given; give settings by their names"),
        (lambda c: c.environment("a", env="b"), "PPOConfig.environment() got two values for 'env'"),
        (lambda c: c.reporting(3), "PPOConfig.reporting() takes 0 arguments by place, but 1 were given"),
    ],
)  # fmt: skip
def test_an_argument_that_there_is_not_is_refused(call: Any, said: str) -> None:
    config = PPOConfig()
    with pytest.raises(TypeError) as raised:
        call(config)
    assert said in str(raised.value)
    assert config == PPOConfig()
    assert isinstance(raised.value, UnknownSettingError) == ("no argument" in said)


def test_a_subclass_adds_settings_by_declaring_them() -> None:
    from kernel_rllib.config import Field

    class Mine(PPOConfig):
        of_mine = Field(0.5, "Something of mine.", range=(0, 1))

    assert Mine().training(of_mine=0.25, lr=1.0).to_dict()["of_mine"] == 0.25
    with pytest.raises(ValueError, match="Mine: of_mine is 2, but must be a number from 0 to 1"):
        Mine().training(of_mine=2)


def test_a_subclass_adds_settings_as_users_of_rllib_do() -> None:
    class Mine(PPOConfig):
        def __init__(self, algo_class: Any = None) -> None:
            super().__init__(algo_class=algo_class or "Mine")
            self.my_weight = 0.5
            self.lr = 0.25
            self.model["fcnet_hiddens"] = [8]

        def training(self, *, my_weight: float = NOT_PROVIDED, **kwargs: Any) -> Any:
            super().training(**kwargs)
            if my_weight is not NOT_PROVIDED:
                self.my_weight = my_weight
            return self

    config = Mine().training(my_weight=0.75, gamma=0.5)
    assert (config.my_weight, config.lr, config.gamma, config.model.fcnet_hiddens) == (0.75, 0.25, 0.5, [8])
    assert Mine().explain()["lr"].set_by == "default of Mine"
    assert Mine.from_dict({"my_weight": 1.0}, generation="0.8.5").my_weight == 1.0
    assert Mine().copy() == Mine() != Mine().training(my_weight=1.0)
    assert Mine().algo_class == "Mine"
