"""What people do wrong, from the first line to the last: what each one hears says what, where, and what to do.

Mistakes in environments that a look at them finds are in test_rllib_envs_checking.py; here are those that training,
settings, checkpoints and callbacks find.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.errors import (
    CheckpointError,
    ConfigError,
    EnvError,
    FrozenConfigError,
    NoSuchSettingError,
    NumericError,
    RunnersLostError,
    SpaceError,
    StoppedError,
    UnknownPolicyError,
    UnknownSettingError,
)
from kernel_rllib.testing.counting import Counting
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.registry import algorithm_class

from kernel_runs.errors import CheckpointError as NoCheckpointError

OBS = np.zeros(2, np.float32)
NAN = float("nan")


def config(env: Any = Counting, **training: Any) -> PPOConfig:
    """Return small settings."""
    made = PPOConfig().environment(env).env_runners(num_env_runners=0)
    return made.training(**{
        "train_batch_size": 16, "minibatch_size": 16, "num_epochs": 1, "model": {"fcnet_hiddens": [4]}, **training,
    })  # fmt: skip


def spoilt(**attributes: Any) -> type:
    """Return a class of environments of which some attributes or methods are others."""
    methods = {
        name: value for name, value in attributes.items() if callable(value) and not isinstance(value, spaces.Space)
    }

    class Maze(Counting):
        def __init__(self, env_config: dict[str, Any]) -> None:
            super().__init__(env_config)
            self.__dict__.update((name, value) for name, value in attributes.items() if name not in methods)

    for name, method in methods.items():
        setattr(Maze, name, method)
    return Maze


def trained(**attributes: Any) -> Callable[[], Any]:
    """Return what trains in a spoilt environment."""
    made = config(spoilt(**attributes))
    return lambda: made.environment(disable_env_checking=True).build().train()


def stepping(*returned: Any) -> Callable[[], Any]:
    """Return what trains in an environment whose steps return this."""
    return trained(step=lambda self, action: returned)


def resetting(returned: Any) -> Callable[[], Any]:
    """Return what trains in an environment whose resets return this."""
    return trained(reset=lambda self, **options: returned)


def fails(self: Any, *arguments: Any, **named: Any) -> Any:
    raise KeyError("door")


def only_here(env_config: Any) -> Any:
    """Return an environment beside the learner, and none in a runner elsewhere."""
    if env_config.worker_index:
        raise RuntimeError("no licence")
    return Counting(env_config)


def stopped() -> Algorithm:
    """Return an algorithm that was stopped, twice."""
    algorithm = config().build()
    algorithm.stop()
    algorithm.stop()
    return algorithm


TABLE: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    # the environment
    "no environment": (lambda: PPOConfig().build(), EnvError, 'no environment is named: pass env="CartPole-v1"'),
    "a name with a slip": (lambda: config("CartPol-v1").build(), EnvError, "Did you mean 'CartPole-v1'"),
    "a module that is not there": (lambda: config("no_module.Env").build(), EnvError, "there is no module 'no_module'"),
    "an environment in place of its class": (
        lambda: config(Counting({})).build(), EnvError, "each runner needs copies of its own: pass its class",
    ),
    "a constructor that raises": (
        lambda: config(lambda env_config: env_config["door"]).build(), EnvError,
        r"environment '<lambda>' can't be made: KeyError: 'door' \(env_config: \{\}, worker_index 0",
    ),
    "a maker without return": (lambda: config(lambda c: None).build(), EnvError, "does it end with `return env`"),
    "no observation space": (
        trained(observation_space=None), EnvError,
        "Maze has no observation_space: set it in __in",
    ),
    "a space that is none": (
        trained(action_space=(2,)), EnvError,
        r"Maze.action_space is \(2,\) \(tuple\): it must be a",
    ),
    "a space without a size": (
        trained(observation_space=spaces.Sequence(spaces.Discrete(2))), SpaceError, "has no fixed size.*use Repeated",
    ),
    "reset returns nothing": (resetting(None), SpaceError, "Maze.reset.. returned None as observation of lane 0"),
    "reset returns the wrong shape": (
        resetting((np.zeros(3), {})), SpaceError,
        r"Maze.reset\(\) returned an array of shape \(3,\).*an array of shape \(2",
    ),
    "reset raises": (
        trained(reset=fails), EnvError,
        "reset.. failed in lane 0, when an episode was to begin: KeyError",
    ),
    "reset returns NaN": (
        resetting((np.full(2, np.nan), {})), EnvError,
        "returned an observation with NaN in it, in lane 0",
    ),
    "step returns nothing": (trained(step=lambda s, a: None), EnvError, r"returned None: return \(observation, reward"),
    "step returns three values": (stepping(OBS, 1.0, False), EnvError, "step.. returned 3 values: return"),
    "step returns the wrong shape": (stepping(np.zeros((2, 1)), 1, 0, 0, {}), SpaceError, r"shape \(2, 1\).*of lane 0"),
    "step returns text": (
        stepping("door", 1, 0, 0, {}), SpaceError,
        r"returned 'door' \(str\) as observation of lane 0",
    ),
    "step returns NaN": (stepping(OBS * NAN, 1, 0, 0, {}), EnvError, "step 1 of its episode: .*observation .*NaN"),
    "a reward that is NaN": (
        stepping(OBS, NAN, 0, 0, {}), EnvError,
        "in lane 0, in step 1 of .* a reward that is.* NaN",
    ),
    "a reward that is text": (
        stepping(OBS, "1", 0, 0, {}), EnvError,
        r"returned '1' \(str\) as reward in lane 0: return one",
    ),
    "a reward of two numbers": (stepping(OBS, [1, 2], 0, 0, {}), EnvError, "as reward in lane 0: return one number"),
    "no reward": (stepping(OBS, None, 0, 0, {}), EnvError, r"returned None \(NoneType\) as reward in lane 0"),
    "step raises": (
        trained(step=fails), EnvError,
        r"step\(\) failed in lane 0, in step 1 of its episode: KeyError: 'door'",
    ),
    "terminated left out": (stepping(OBS, 1, None, False, {}), EnvError, "None .NoneType. as terminated in lane 0"),
    "truncated as text": (stepping(OBS, 1, True, "no", {}), EnvError, "'no' .str. as truncated in lane 0: return True"),
    "an info that is a list": (stepping(OBS, 1, 0, 0, [7]), EnvError, r"\[7\] \(list\) as info in lane 0: return a"),
    "an observation of nothing": (
        trained(observation_space=spaces.Dict({}), reset=lambda self, **_: ({}, {})), SpaceError, "has no components",
    ),
    "a Box of nothing": (
        trained(observation_space=spaces.Box(0, 1, (0,)), reset=lambda self, **_: ([], {})), SpaceError, "components",
    ),
    "an infinite observation": (
        stepping(OBS + np.inf, 1.0, False, False, {}), NumericError,
        r"columns .*'obs'.* hold numbers that are not finite",
    ),
    "an index out of range": (
        trained(observation_space=spaces.Discrete(3), reset=lambda self, **_: (5, {})), SpaceError,
        "returned 5 as observation of lane 0.*return a whole number from 0 to 2",
    ),
    "a dict without a key": (
        trained(observation_space=spaces.Dict(a=spaces.Discrete(3), b=spaces.Discrete(2)),
                reset=lambda self, **_: ({"a": 1}, {})),
        SpaceError, r"returned a dict without \['b'\] as observation of lane 0",
    ),
    # the algorithm, and its settings
    "an algorithm with a slip": (lambda: algorithm_class("PP0"), ConfigError, "no algorithm 'PP0'; did you mean 'PPO'"),
    "the config of no algorithm": (
        lambda: AlgorithmConfig().build(), ConfigError,
        "take the config of one, such as PPOCon",
    ),
    "an argument with a slip": (
        lambda: config(lamda_=1), UnknownSettingError,
        r"training\(\) has no argument 'lamda_'; did",
    ),
    "a key with a slip": (
        lambda: PPOConfig.from_dict({"num_worker": 1}, generation="0.8.5"), UnknownSettingError, "mean 'num_workers'",
    ),
    "an attribute that is none": (
        lambda: setattr(PPOConfig(), "learning_rate", 1), NoSuchSettingError,
        "PPOConfig has no setting 'learning_rate'",
    ),
    "settings that are a list": (lambda: PPOConfig.from_dict([1]), ConfigError, r"settings are \[1\] \(list\): give a"),  # type: ignore[arg-type]
    "settings that are nothing": (lambda: config().update_from_dict(None), ConfigError, "settings are None"),  # type: ignore[arg-type]
    "two names that disagree": (
        lambda: PPOConfig.from_dict({"num_workers": 1, "num_env_runners": 2}), ConfigError,
        "are two names of num_env_run",
    ),
    "text for a number": (
        lambda: config(lr="fast"), ConfigError,
        "PPOConfig: lr is 'fast', but must be a number, a list",
    ),
    "a number out of range": (lambda: config(gamma=1.5), ConfigError, "gamma is 1.5, but must be a number from 0 to 1"),
    "a framework that is none": (
        lambda: config().framework("jax"), ConfigError,
        "'jax', but must be 'auto', 'numpy', 'tor",
    ),
    "minibatches larger than the batch": (
        lambda: config(minibatch_size=100).build(), ConfigError,
        "minibatch_size=100 is more than the 16 steps of a batch",
    ),
    "a setting that nothing acts on": (
        lambda: config().environment(action_mask_key="mask").build(), ConfigError,
        "no algorithm acts on action_mask_key",
    ),
    "a change of what is used": (
        lambda: config().build().config.training(lr=1.0), FrozenConfigError,
        r"Change a copy: config.copy\(copy_frozen=False",
    ),
    "values of continuous actions": (
        lambda: DQNConfig().environment("Pendulum-v1").build(), ConfigError, "takes Box.*take PPO or SAC for it",
    ),
    "actions that an algorithm can't learn": (
        lambda: SACConfig().environment(spoilt(action_space=spaces.Tuple([spaces.MultiBinary(2)]))).build(), SpaceError,
        "SAC can't learn",
    ),
    # acting, and going on
    "an observation of another space": (
        lambda: config().build().compute_single_action([1, 2, 3]), SpaceError,
        r"of shape \(3,\) as observation of lane 0",
    ),
    "an observation that is given twice": (
        lambda: config().build().compute_single_action(OBS, input_dict={"obs": OBS}), SpaceError, "both observation",
    ),
    "columns without an observation": (
        lambda: config().build().compute_single_action(input_dict={"ob": OBS}), SpaceError, "has 'ob' and no 'obs'",
    ),
    "an observation of another shape": (
        lambda: config().build().compute_single_action([0.0] * 5), SpaceError,
        r"^policy.compute_actions\(\) got a list of shape \(5,\) as observation of lane 0, but observation_space is",
    ),
    "a policy that is not there": (
        lambda: config().build().get_policy("p1"), UnknownPolicyError,
        "there is no policy 'p1'; there are default_policy",
    ),
    "training after stop": (lambda: stopped().train(), StoppedError, "PPO was stopped, and its runners .* call stop"),
    "sampling after stop": (lambda: stopped().sample(), RunnersLostError, "were ended, and sample no more"),
    "a pickle of an algorithm": (lambda: pickle.dumps(config().build()), TypeError, "PPO can't be pickled.*from_check"),
    "a copy of an algorithm": (lambda: copy.deepcopy(config().build()), TypeError, "PPO can't be pickled or copied"),
    "a checkpoint where there is no place": (
        lambda: config().build().save("/proc/nowhere"), CheckpointError, "can't be written to /proc/nowhere: .*room",
    ),
    "no checkpoint": (
        lambda: Algorithm.from_checkpoint("/nowhere"), CheckpointError, r"/nowhere is no checkpoint of an algorithm",
    ),
    "no checkpoint to restore": (
        lambda: config().build().restore("/nowhere"), NoCheckpointError, "/nowhere is not a checkpoint of a trainable",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_what_is_wrong_is_said(case: str) -> None:
    use, error, said = TABLE[case]
    with pytest.raises(error, match=said):
        use()


@pytest.mark.usefixtures("session")
def test_an_environment_that_no_runner_can_make_is_an_error_at_once() -> None:
    algorithm = config(only_here).env_runners(num_env_runners=1, num_cpus_per_env_runner=0).build()
    with pytest.raises(EnvError, match="can't be made: RuntimeError: no licence"):
        algorithm.train()
    algorithm.stop()


def test_there_are_as_many_as_were_promised() -> None:
    assert len(TABLE) >= 40


def test_a_checkpoint_of_another_model_says_what_differs(tmp_path: Path) -> None:
    path = config().build().save(str(tmp_path))
    other = config(model={"fcnet_hiddens": [5]}).build()
    with pytest.raises(CheckpointError, match=r"of another module: policy/0/.* here \(5|of another module"):
        other.restore(path)


def test_a_checkpoint_of_another_algorithm_changes_nothing(tmp_path: Path) -> None:
    trained_here = config().build()
    trained_here.train()
    path = trained_here.save(str(tmp_path))
    other = DQNConfig().environment(Counting).env_runners(num_env_runners=0).build()
    with pytest.raises(CheckpointError, match=r"is a checkpoint of PPO, and this is DQN: call Algorithm.from_checkp"):
        other.restore(path)
    assert (other.iteration, other.env_steps_sampled) == (0, 0)


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda: config(model={"fcnet_hidden": [4]}), "model has no setting 'fcnet_hidden'.*there is 'fcnet_hiddens'"),
        (lambda: config().update_from_dict({"num_env_runer": 1}), "no setting 'num_env_runer'.*is 'num_env_runners'"),
    ],
)
def test_a_setting_of_a_users_own_that_looks_like_a_slip_is_pointed_out(use: Callable[[], Any], said: str) -> None:
    with pytest.warns(UserWarning, match=said):
        use()


def test_who_asks_for_tensorflow_is_told_what_learns_at_their_own_line() -> None:
    made = config().framework("tf2")
    with pytest.warns(UserWarning, match="'tf2', but TensorFlow comes in a later release; numpy learns") as warned:
        assert isinstance(made.build().learner.weights, np.ndarray)
    assert {each.filename for each in warned} == {__file__}
