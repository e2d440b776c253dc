"""Names that users register are found in other processes too: of environments, models, distributions, preprocessors."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kernel_rllib.algorithms.ppo import PPO
from kernel_rllib.distributions.categorical import Categorical
from kernel_rllib.envs.games.guess_the_action import GuessTheAction
from kernel_rllib.envs.registry import register_env
from kernel_rllib.errors import ConfigError, EnvError
from kernel_rllib.first_generation.catalog import ModelCatalog
from kernel_rllib.spaces.preprocessors import NoPreprocessor

import kernel

FEW = {
    "num_env_runners": 0, "train_batch_size": 16, "minibatch_size": 16, "num_epochs": 1,
    "model": {"fcnet_hiddens": [4]},
}  # fmt: skip


@kernel.remote
class Trial:
    """A process that registered nothing."""

    def train(self, **settings: Any) -> tuple[str, ...]:
        """Return the classes of what a run is made of."""
        algorithm = PPO({**FEW, **settings, "model": {**FEW["model"], **settings.get("model", {})}})  # type: ignore[dict-item]
        algorithm.train()
        (env,) = algorithm.workers.foreach_env(lambda env: type(env).__name__)[0]
        return env, type(algorithm.distribution).__name__


@pytest.fixture(scope="module")
def trial(session: None) -> Any:
    return Trial.remote()


def test_names_of_the_program_are_found_by_its_processes(trial: Any) -> None:
    class Drawn(Categorical):
        def __init__(self, action_space: Any) -> None:
            super().__init__(int(action_space.n))

    class Same(NoPreprocessor):
        def transform(self, observation: Any) -> Any:
            return observation

    register_env("guess", lambda config: GuessTheAction(config))
    ModelCatalog.register_custom_action_dist("drawn", Drawn)
    ModelCatalog.register_custom_preprocessor("same", Same)
    model = {"custom_action_dist": "drawn", "custom_preprocessor": "same"}
    assert kernel.get(trial.train.remote(env="guess", model=model)) == ("GuessTheActionGame", "Drawn")


def test_what_can_not_be_sent_is_an_error_that_names_it(trial: Any) -> None:
    lock = threading.Lock()
    register_env("locked", lambda config: lock)
    ModelCatalog.register_custom_action_dist("locked", lambda *given: lock)
    with pytest.raises(
        EnvError, match=r"the environment 'locked' was registered in another process, and can't be loaded"
    ):
        kernel.get(trial.train.remote(env="locked"))
    with pytest.raises(
        ConfigError, match=r"custom_action_dist is 'locked', but the distribution of actions 'locked' was registered in"
    ):
        kernel.get(trial.train.remote(env="CartPole-v1", model={"custom_action_dist": "locked"}))


def test_a_name_that_nobody_gave_is_answered_with_those_of_the_program(trial: Any) -> None:
    register_env("corridor_of_mine", GuessTheAction)
    with pytest.raises(EnvError, match=r"no environment is named 'corridor_of_min'.* 'corridor_of_mine'"):
        kernel.get(trial.train.remote(env="corridor_of_min"))
