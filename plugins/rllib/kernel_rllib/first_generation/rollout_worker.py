"""Workers without an algorithm: `RolloutWorker` samples with policies, `WorkerSet` is several of them in actors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import kernel
from kernel_rllib.callbacks.runner_views import make_worker_of_this_process, worker_of_this_process
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID, PolicySpec, as_specs, policies_problem
from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.errors import ConfigError, RLlibError
from kernel_rllib.first_generation.worker_policies import worker_policies
from kernel_rllib.policy.rollout_metrics import keep_metrics
from kernel_rllib.policy.worker import WorkerView
from kernel_rllib.policy.worker_settings import PolicySettings, WorkerSettings
from kernel_rllib.runners.env_runner import EnvRunner
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.training.cpu_shares import share_here


def get_global_worker() -> Any:
    """Return the worker of this process, with its environments and policies: from callbacks, that which calls them.

    Raises:
        RLlibError: If there is none in this process.
    """
    found = worker_of_this_process()
    if found is None:
        raise RLlibError(
            "there is no worker in this process: get_global_worker() is for callbacks of runners, and for programs "
            "that make a RolloutWorker. An algorithm has its workers in algorithm.workers"
        )
    return found


class RolloutWorker(WorkerView):
    """Steps environments with policies; `sample()` returns what happened. It may be an actor, as any class may."""

    def __init__(
        self,
        env_creator: Callable[[Any], Any],
        policy: Any = None,
        policy_mapping_fn: Callable[..., str] | None = None,
        policies_to_train: Sequence[str] | None = None,
        *,
        policies: Mapping[str, Any] | None = None,
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
        """Make the policies and the environments.

        Args:
            env_creator: Makes an environment of its `env_config`.
            policy: The class of the policy: one derived from `Policy`, or of `build_torch_policy`. With several agents
                also a dict of policies, each a class, its spaces and its settings; spaces that are None are those of
                the environment's agents.
            policy_mapping_fn: Returns the id of the policy of an agent, given the agent; None: all have the default.
            policies_to_train: The ids of the policies that learn; None for all.
            policies: The same as `policy`, for a dict.
            rollout_fragment_length: The number of steps that each environment makes for a sample.
            batch_mode: `"truncate_episodes"`, or `"complete_episodes"` for samples of whole episodes.
            num_envs: The number of environments that it steps together.
            env_config: The settings that these are made with.
            model_config: Options of the model.
            policy_config: Settings of the policy.
            preprocessor_pref: The way to make pictures small; `"deepmind"` shows games of Atari as DeepMind's agents
                see
                them.
            clip_actions: Whether actions are cut off at the bounds of the space.
            worker_index: Its number, which environments are told.
            num_workers: The number of workers, which these are told.
            seed: The seed of all random numbers; None for any.
            create_env: Whether it has environments; without any it has a policy only.
            further: Nothing else is honoured.

        Raises:
            ConfigError: If something is given that has no effect here, or policies do not fit the environment.
        """
        if further:
            raise ConfigError(
                f"RolloutWorker({next(iter(further))}=) can't be honoured: a worker by itself samples with policies, "
                "and no more. Build an algorithm, whose config has it"
            )
        if policy is not None and policies is not None:
            raise ConfigError("RolloutWorker was given policy= and policies=: give one of them")
        self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed + worker_index
        own = {
            "env": env_creator,
            "env_config": dict(env_config or {}),
            "batch_mode": batch_mode,
            "clip_actions": clip_actions,
            "preprocessor_pref": preprocessor_pref,
            "num_envs_per_worker": num_envs,
            "num_workers": 0,
            "seed": self._seed,
        }
        config = _config_of(policy_config or {}, model_config, own)
        if policy_mapping_fn is not None:
            config.multi_agent(policy_mapping_fn=policy_mapping_fn)
        self._acting = worker_policies(config, _specs(policies if policy is None else policy), self._seed)
        blueprint, lanes = self._acting.blueprint, tuple(range(num_envs))
        place = RunnerPlace(worker_index, lanes, num_workers, len(lanes))
        runner = EnvRunner(lambda: blueprint(place), index=worker_index) if create_env else None
        if runner is not None:
            self._acting.acts_in(runner)
        said, made = config.to_dict("0.8.5"), self._acting.policies
        settings = WorkerSettings(
            blueprint,
            {policy_id: PolicySettings(None, said) for policy_id in made},
            said,
            {worker_index: rollout_fragment_length},
            policies_to_train=policies_to_train,
        )
        super().__init__(settings, made, runner, worker_index)
        make_worker_of_this_process(self)

    @classmethod
    def as_remote(cls, num_cpus: float = 1, num_gpus: float = 0, **options: Any) -> Any:
        """Return the class as one of actors: `RolloutWorker.as_remote().remote(env_creator=..., policy=...)`."""
        return kernel.remote(num_cpus=num_cpus, num_gpus=num_gpus, **options)(cls)

    def sample(self) -> Batch | MultiAgentBatch:
        """Return what happened in as many steps as were asked for, as policies have postprocessed it.

        Returns:
            A `MultiAgentBatch`, where there are other policies than the default one. Postprocessing is given what other
            agents of the same episode did in this sample, by agent: their policies and batches.

        Raises:
            RLlibError: If this worker has no environments.
        """
        runner = self._with_envs("sample")
        runner.set_weights(self._acting.vector, runner.sampler.weights_version + 1)
        sample = runner.sample(self._settings.steps[self.worker_index])
        keep_metrics(runner, sample)
        return self._acting.postprocessed(sample, runner)

    def set_weights(self, weights: Mapping[str, Any], global_vars: Mapping[str, Any] | None = None) -> None:
        """Go on with what `get_weights` returned.

        Args:
            weights: By the ids of policies.
            global_vars: Numbers that all policies are told by `on_global_var_update`: `timestep`.
        """
        super().set_weights(weights)
        for policy in self.policy_map.values() if global_vars else ():
            policy.on_global_var_update(global_vars)

    def compute_gradients(self, samples: Any) -> tuple[Any, Any]:
        """Return the gradients for a batch, and what policies report of them; weights stay as they are.

        Args:
            samples: A batch of the default policy; or a `MultiAgentBatch`: both are by the ids of the policies then
                that are to be trained.
        """
        if not isinstance(samples, MultiAgentBatch):
            gradients, info = self.get_policy().compute_gradients(samples)
            return gradients, info
        there = samples.policy_batches
        chosen = [name for name in there if self.is_policy_to_train(name, samples)]
        found = {name: self.get_policy(name).compute_gradients(there[name]) for name in chosen}
        return {name: pair[0] for name, pair in found.items()}, {name: pair[1] for name, pair in found.items()}

    def apply_gradients(self, gradients: Any) -> Any:
        """Let policies take a step along what `compute_gradients` returned, and return what they return."""
        if isinstance(gradients, Mapping) and gradients and gradients.keys() <= self.policy_map.keys():
            return {name: self.get_policy(name).apply_gradients(found) for name, found in gradients.items()}
        return self.get_policy().apply_gradients(gradients)


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
            policy: The class of the policy, or a dict of several; see `RolloutWorker`.
            trainer_config: Settings, as a dict of 0.8.5. Its `multiagent` has policies, whose class is `policy` where
                they name none, the `policy_mapping_fn` and the `policies_to_train`.
            num_workers: The number of workers in actors; without any the local worker has environments.
            policy_class: The same as `policy`.
            further: Arguments of `RolloutWorker`.
        """
        config = dict(trainer_config or {})
        several, chosen = config.get("multiagent") or {}, policy or policy_class
        if several.get("policies"):
            chosen = {
                name: PolicySpec(spec.policy_class or chosen, *list(spec)[1:])
                for name, spec in as_specs(several["policies"]).items()
            }
        named = {name: several[name] for name in ("policy_mapping_fn", "policies_to_train") if name in several}
        given = {"env_creator": env_creator, "policy": chosen, "num_workers": num_workers, **named, **further}
        given |= {
            "rollout_fragment_length": config.get("rollout_fragment_length", 100),
            "env_config": config.get("env_config"),
            "seed": config.get("seed"),
            "policy_config": config,
        }
        self._local = RolloutWorker(**given, create_env=num_workers == 0)
        cpus = config.get("num_cpus_per_worker", 1)
        share = share_here([cpus] * num_workers, f"the {num_workers} workers of a WorkerSet")
        remote = RolloutWorker.as_remote(num_cpus=cpus if share is None else min(share, cpus))
        self._remote = [remote.remote(**given, worker_index=index) for index in range(1, num_workers + 1)]

    def local_worker(self) -> RolloutWorker:
        """Return the one that is here."""
        return self._local

    def remote_workers(self) -> list[Any]:
        """Return the handles of those in actors."""
        return list(self._remote)

    def reset(self, remote_workers: Sequence[Any]) -> None:
        """Have these in the place of the workers in actors; those that there were go on."""
        self._remote = list(remote_workers)

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


def _config_of(
    policy_config: Mapping[str, Any], model_config: Mapping[str, Any] | None, own: Mapping[str, Any]
) -> AlgorithmConfig:
    """Return the settings of a worker: those of its policy, and over them its own."""
    given = {name: value for name, value in policy_config.items() if name != "multiagent"} | dict(own)
    if model_config is not None:
        given["model"] = dict(model_config)
    return AlgorithmConfig.from_dict({}, generation="0.8.5").update_from_dict(given, keep_unknown=True)


def _specs(policy: Any) -> dict[str, PolicySpec]:
    """Return policies by their ids, of one class or of a dict."""
    found = as_specs(policy) if isinstance(policy, Mapping) else {DEFAULT_POLICY_ID: PolicySpec(policy)}
    problem = policies_problem(found)
    if problem is not None:
        raise ConfigError(f"RolloutWorker can't have these policies: {problem}")
    return dict(found)
