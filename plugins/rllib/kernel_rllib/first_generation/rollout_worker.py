"""Workers without an algorithm: `RolloutWorker` samples with a policy, `WorkerSet` is several of them in actors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import kernel
from kernel_rllib.algorithms.parts import blueprint_of, env_maker_of, policy_blueprint_of
from kernel_rllib.algorithms.spaces import Spaces, spaces_of
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.data.batch import Batch, concatenated
from kernel_rllib.envs.atari import is_atari
from kernel_rllib.errors import ConfigError
from kernel_rllib.first_generation.policy_trainer import (
    exploration_of,
    policy_and_module,
    require_policy_class,
)
from kernel_rllib.first_generation.torch_policy import TorchPolicy
from kernel_rllib.policy.worker_settings import PolicySettings, WorkerSettings
from kernel_rllib.policy.workers import WorkerView
from kernel_rllib.runners.env_runner import EnvRunner
from kernel_rllib.runners.place import RunnerPlace


class RolloutWorker(WorkerView):
    """Steps environments with a policy; `sample()` returns what happened. It may be an actor, as any class may."""

    def __init__(
        self,
        env_creator: Callable[[Any], Any],
        policy: Any,
        *,
        rollout_fragment_length: int = 100,
        batch_mode: str = "truncate_episodes",
        num_envs: int = 1,
        env_config: Mapping[str, Any] | None = None,
        model_config: Mapping[str, Any] | None = None,
        policy_config: Mapping[str, Any] | None = None,
        preprocessor_pref: str | None = "deepmind",
        clip_actions: bool = True,
        worker_index: int = 0,
        num_workers: int = 0,
        seed: int | None = None,
        create_env: bool = True,
        **further: Any,
    ) -> None:
        """Make the policy and the environments.

        Args:
            env_creator: Makes an environment of its `env_config`.
            policy: The class of the policy: one derived from `Policy`, or of `build_torch_policy`.
            rollout_fragment_length: How many steps each environment makes for a sample.
            batch_mode: `"truncate_episodes"`, or `"complete_episodes"` for samples of whole episodes.
            num_envs: How many environments it steps together.
            env_config: What these are told.
            model_config: Options of the model.
            policy_config: Settings of the policy.
            preprocessor_pref: How pictures are made small; `"deepmind"` shows games of Atari as DeepMind's agents see
                them.
            clip_actions: Whether actions are cut off at the bounds of the space.
            worker_index: Its number, which environments are told.
            num_workers: How many there are, which these are told.
            seed: What randomness comes from; None for any.
            create_env: Whether it has environments; without any it has a policy only.
            further: Nothing else is honoured.

        Raises:
            ConfigError: If something is given that has no effect here.
        """
        if further:
            raise ConfigError(
                f"RolloutWorker({next(iter(further))}=) can't be honoured: a worker by itself samples with one policy "
                "and no more. Build an algorithm, whose config has it"
            )
        chosen = require_policy_class(policy, "RolloutWorker")
        self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed + worker_index
        given = {**(policy_config or {}), "env": env_creator, "env_config": dict(env_config or {})}
        given |= {
            "batch_mode": batch_mode,
            "clip_actions": clip_actions,
            "preprocessor_pref": preprocessor_pref,
            "num_envs_per_worker": num_envs,
            "num_workers": 0,
            "seed": self._seed,
        }
        if model_config is not None:
            given["model"] = dict(model_config)
        config = AlgorithmConfig.from_dict({}, generation="0.8.5").update_from_dict(given, keep_unknown=True)
        spaces = _spaces_of(config)
        self._policy, module = policy_and_module(chosen, spaces.observation, spaces.action, config.to_dict("0.8.5"))
        runner, settings = self._made(config, spaces, module, worker_index, num_workers, rollout_fragment_length)
        super().__init__(settings, {DEFAULT_POLICY_ID: self._policy}, runner() if create_env else None, worker_index)

    @classmethod
    def as_remote(cls, num_cpus: float = 1, num_gpus: float = 0, **options: Any) -> Any:
        """Return the class as one of actors: `RolloutWorker.as_remote().remote(env_creator=..., policy=...)`."""
        return kernel.remote(num_cpus=num_cpus, num_gpus=num_gpus, **options)(cls)

    def sample(self) -> Batch:
        """Return what happened in as many steps as were asked for, as the policy has postprocessed it."""
        runner = self._with_envs("sample")
        if isinstance(self._policy, TorchPolicy):
            runner.set_weights(self._policy.vector, runner.sampler.weights_version + 1)
        found = super().sample()
        assert isinstance(found, Batch)
        pieces = [self._policy.postprocess_trajectory(piece, {}, None) for piece in found.split_by_episode()]
        joined = concatenated(pieces)
        assert isinstance(joined, Batch)
        return joined

    def compute_gradients(self, samples: Any) -> tuple[Any, Any]:
        """Return the gradients of the policy for a batch, and what it reports of them; weights stay as they are."""
        gradients, info = self._policy.compute_gradients(samples)
        return gradients, info

    def apply_gradients(self, gradients: Any) -> Any:
        """Let the policy take a step along gradients, and return what it returns."""
        return self._policy.apply_gradients(gradients)

    def _made(
        self, config: AlgorithmConfig, spaces: Spaces, module: Any, index: int, count: int, steps: int
    ) -> tuple[Callable[[], EnvRunner], WorkerSettings]:
        exploration = exploration_of(self._policy)
        blueprint = blueprint_of(config, policy_blueprint_of(config, spaces, module, exploration), self._seed)
        lanes = tuple(range(int(config.num_envs_per_env_runner)))
        place = RunnerPlace(index, lanes, count, len(lanes))
        said = config.to_dict("0.8.5")
        known = {DEFAULT_POLICY_ID: PolicySettings(None, said)}
        settings = WorkerSettings(blueprint, known, said, {index: steps})
        return lambda: EnvRunner(lambda: blueprint(place), index=index), settings


class WorkerSet:
    """A local worker without environments, and workers in actors with them."""

    def __init__(
        self,
        env_creator: Callable[[Any], Any],
        policy: Any = None,
        trainer_config: Mapping[str, Any] | None = None,
        num_workers: int = 0,
        *,
        policy_class: Any = None,
        **further: Any,
    ) -> None:
        """Make the workers.

        Args:
            env_creator: Makes an environment of its `env_config`.
            policy: The class of the policy.
            trainer_config: Settings, as a dict of 0.8.5.
            num_workers: How many there are in actors; without any the local worker has environments.
            policy_class: The same as `policy`.
            further: Arguments of `RolloutWorker`.
        """
        config = dict(trainer_config or {})
        given = {"env_creator": env_creator, "policy": policy or policy_class, "num_workers": num_workers, **further}
        given |= {
            "rollout_fragment_length": config.get("rollout_fragment_length", 100),
            "env_config": config.get("env_config"),
            "seed": config.get("seed"),
            "policy_config": config,
        }
        self._local = RolloutWorker(**given, create_env=num_workers == 0)
        remote = RolloutWorker.as_remote(num_cpus=config.get("num_cpus_per_worker", 1))
        self._remote = [remote.remote(**given, worker_index=index) for index in range(1, num_workers + 1)]

    def local_worker(self) -> RolloutWorker:
        """Return the one that is here."""
        return self._local

    def remote_workers(self) -> list[Any]:
        """Return the handles of those in actors."""
        return list(self._remote)

    def foreach_worker(self, func: Callable[[Any], Any]) -> list[Any]:
        """Return what the function returns for each worker, the local one first."""
        return [func(self._local), *kernel.get([worker.apply.remote(func) for worker in self._remote])]

    def foreach_worker_with_index(self, func: Callable[[Any, int], Any]) -> list[Any]:
        """Return what `func(worker, index)` returns for each worker, the local one first."""
        calls = [worker.apply.remote(func, index) for index, worker in enumerate(self._remote, start=1)]
        return [func(self._local, 0), *kernel.get(calls)]

    def stop(self) -> None:
        """End the actors."""
        for worker in self._remote:
            kernel.kill(worker)
        self._remote.clear()


def _spaces_of(config: AlgorithmConfig) -> Spaces:
    """Return the spaces of one agent, and let the settings say whether its environment is a game of Atari.

    A function that makes an environment has no name that tells so: what it makes does.
    """
    given, said = (config.observation_space, config.action_space), config.is_atari
    found: list[bool] = []
    config.is_atari = True if said is None else said  # what shows no screen of such a game is made as it is
    spaces = spaces_of(
        env_maker_of(config),
        config.env_config,
        *given,
        look=lambda env: found.append(is_atari(getattr(env, "unwrapped", env))),
    )
    config.is_atari = found[0] if said is None and found else said
    return spaces
