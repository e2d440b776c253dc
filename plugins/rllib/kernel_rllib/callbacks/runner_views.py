"""The runner as callbacks see it: its environments, and the modules that act in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import ReferenceType, ref

from kernel_rllib.callbacks.episode import POLICY


class EnvsView:
    """The environments of a runner, under the names of `gymnasium.vector.VectorEnv` and of RLlib's `BaseEnv`."""

    def __init__(self, vector: Any) -> None:
        """Show these lanes."""
        self._vector = vector
        self.num_envs: int = vector.num_lanes if hasattr(vector, "num_lanes") else vector.num_envs

    @property
    def envs(self) -> list[Any]:
        """The environments, by position. Those of other processes are copies."""
        return self._vector.foreach(_itself)  # type: ignore[no-any-return]

    @property
    def unwrapped(self) -> EnvsView:
        """This object: nothing is around it."""
        return self

    def get_sub_environments(self) -> list[Any]:
        """Return the environments, by position."""
        return self.envs

    get_unwrapped = get_sub_environments


class RunnerView:
    """A runner, under the names of RLlib's `RolloutWorker` and `EnvRunner`.

    Attributes:
        worker_index: Its number: 0 beside the learner, from 1 elsewhere.
        env: Its environments.
        module: The module that acts.
        metrics: The logger of the metrics of callbacks.
        policy_map: Its policies by their ids.
    """

    def __init__(self, runner: Any, vector: Any, module: Any, metrics: Any, policies: Mapping[str, Any]) -> None:
        """Show a runner: its `EnvRunner`, its lanes, its module, its logger and its policies."""
        self.runner = runner
        self.worker_index: int = runner.index
        self.env, self.module, self.metrics = EnvsView(vector), module, metrics
        self.policy_map = dict(policies)
        self._vector = vector

    @property
    def num_envs(self) -> int:
        """The number of environments that the runner steps."""
        return self.env.num_envs

    def foreach_env(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function returns for each environment, where that is."""
        return self._vector.foreach(function)  # type: ignore[no-any-return]

    def get_policy(self, policy_id: str = POLICY) -> Any:
        """Return a policy, or None if there is none of that id."""
        return self.policy_map.get(policy_id)

    def foreach_policy(self, function: Callable[[Any, str], Any]) -> list[Any]:
        """Return what `function(policy, id)` returns for each policy."""
        return [function(policy, name) for name, policy in self.policy_map.items()]

    def as_arguments(self, metrics: Any) -> dict[str, Any]:
        """Return what each callback is given of a runner, by the names of all generations.

        From then on it is the worker of this process: see `worker_of_this_process`.
        """
        make_worker_of_this_process(self)
        return {
            "env_runner": self,
            "worker": self,
            "metrics_logger": metrics,
            "env": self.env,
            "base_env": self.env,
            "rl_module": self.module,
            "policies": self.policy_map,
        }


class RunnerPolicy:
    """A policy of a runner: its module, and the parameters that it acts with."""

    def __init__(self, module: Any, vector: Any, observation_space: Any, action_space: Any) -> None:
        """Take the module that acts."""
        self.module = self.model = module
        self.observation_space, self.action_space = observation_space, action_space
        self._vector = vector

    def get_weights(self) -> dict[str, Any]:
        """Return a copy of its parameters, by name."""
        return {name: value.copy() for name, value in self.module.table.views(self._vector).items()}


_current: list[ReferenceType[Any]] = []


def make_worker_of_this_process(worker: Any) -> None:
    """Let a runner be what `worker_of_this_process` returns, as long as it lives."""
    _current[:] = [ref(worker)]


def worker_of_this_process() -> Any:
    """Return the runner of this process whose callbacks were last called, or None if there is none."""
    return _current[0]() if _current else None


def _itself(env: Any) -> Any:
    return env
