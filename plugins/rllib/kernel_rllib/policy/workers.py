"""The workers of an algorithm as programs of all generations ask for them: all together, and those in actors.

A worker is a runner with its policies; see `policy.worker`. The local one has the learner's; those in actors have
copies, and a function that is given to `foreach_worker` runs where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import kernel
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.policy.worker import WorkerView, worker_of
from kernel_rllib.policy.worker_settings import WorkerSettings
from kernel_rllib.runners.env_runner import EnvRunner
from kernel_rllib.runners.group import RunnerGroup


class WorkerSet:
    """Holds all workers of an algorithm: the local one, which has the learned parameters, and those in actors."""

    def __init__(self, settings: WorkerSettings, group: RunnerGroup, policies: Callable[[], Mapping[str, Any]]) -> None:
        """Show the workers of a group.

        Args:
            settings: The settings that all of them share.
            group: The runners.
            policies: Returns those that learn.
        """
        self._settings, self._group, self._policies = settings, group, policies

    def local_worker(self) -> WorkerView:
        """Return the one beside the learner. It has environments where no others have them."""
        return WorkerView(self._settings, self._policies(), self._group.local, 0)

    def remote_workers(self) -> list[RemoteWorker]:
        """Return those in actors: `worker.sample.remote()` returns a reference, as every method does."""
        self._group.hand_over_weights()
        return [RemoteWorker(self._settings, handle, index) for index, handle in self._group.actors()]

    def restore(self) -> None:
        """Ask all in actors for a sign of life, and let others take the places of those that died."""
        if self._group.local is None:
            self._group.foreach(_alive)

    def foreach_worker(
        self,
        func: Callable[[WorkerView], Any],
        local_worker: bool = True,
        *,
        healthy_only: bool = True,
        remote_worker_ids: Collection[int] | None = None,
        timeout_seconds: float | None = None,
    ) -> list[Any]:
        """Return what the function returns for each worker, the local one first. Functions are sent to the others.

        Args:
            func: The function, of a worker.
            local_worker: Whether the local one is called too.
            healthy_only: Accepted: runners that died are replaced, as the settings say.
            remote_worker_ids: The numbers of the others that are called; None for all.
            timeout_seconds: The number of seconds to wait for those in actors. Later results are left out,
                and a warning says where these workers are. None: as long as it takes; one whose environments hang in a
                sample is replaced.

        Raises:
            RunnersLostError: If a runner died or hangs, and none can take its place.
        """
        return self._foreach(_WithoutIndex(func), local_worker, remote_worker_ids, timeout_seconds)

    def foreach_worker_with_index(
        self,
        func: Callable[[WorkerView, int], Any],
        local_worker: bool = True,
        *,
        healthy_only: bool = True,
        remote_worker_ids: Collection[int] | None = None,
        timeout_seconds: float | None = None,
    ) -> list[Any]:
        """Return what `func(worker, index)` returns for each worker, the local one first; see `foreach_worker`."""
        return self._foreach(func, local_worker, remote_worker_ids, timeout_seconds)

    def _foreach(
        self,
        func: Callable[[WorkerView, int], Any],
        local_worker: bool,
        remote_worker_ids: Collection[int] | None,
        timeout_seconds: float | None,
    ) -> list[Any]:
        found = [func(self.local_worker(), 0)] if local_worker or self._group.local is not None else []
        if self._group.local is None:
            found += self._group.foreach(
                _with_index, self._settings, func, timeout_s=timeout_seconds, only=remote_worker_ids, hands_over=True
            )
        return found

    def foreach_policy(self, func: Callable[..., Any]) -> list[Any]:
        """Return what `func(policy, policy_id)` returns for each policy of each worker, in one list."""
        found = self.foreach_worker(_ForEachPolicy(func))
        return [each for one in found for each in one]

    def foreach_policy_to_train(self, func: Callable[..., Any]) -> list[Any]:
        """Return what `func(policy, policy_id)` returns for each policy of each worker that learns, in one list."""
        found = self.foreach_worker(_ForEachPolicy(func, only_to_train=True))
        return [each for one in found for each in one]

    foreach_trainable_policy = foreach_policy_to_train

    def foreach_env(self, func: Callable[[Any], Any]) -> list[list[Any]]:
        """Return what the function returns for each environment, a list for each worker."""
        return self.foreach_worker(_ForEachEnv(func))

    def foreach_env_with_context(self, func: Callable[[Any, Any], Any]) -> list[list[Any]]:
        """Return what `func(env, context)` returns for each environment, a list for each worker."""
        return self.foreach_worker(_ForEachEnv(func, with_context=True))

    def num_remote_workers(self) -> int:
        """Return how many are in actors."""
        return self._group.num_healthy_runners

    def sync_weights(self, *ignored: Any, **further: Any) -> None:
        """Give all runners the parameters that were learned so far, now."""
        local = self.local_worker()
        local.set_weights(local.get_weights())
        self._group.hand_over_weights()

    def stop(self) -> None:
        """End the runners."""
        self._group.close()

    # -- the same under today's names ---------------------------------------------------------------------------------

    @property
    def local_env_runner(self) -> WorkerView:
        """The worker beside the learner."""
        return self.local_worker()

    def foreach_env_runner(
        self,
        func: Callable[[WorkerView], Any],
        *,
        local_env_runner: bool = True,
        healthy_only: bool = True,
        remote_worker_ids: Collection[int] | None = None,
        timeout_seconds: float | None = None,
    ) -> list[Any]:
        """Return what the function returns for each worker, the local one first; see `foreach_worker`."""
        return self._foreach(_WithoutIndex(func), local_env_runner, remote_worker_ids, timeout_seconds)

    def num_remote_env_runners(self) -> int:
        """Return how many are in actors."""
        return self.num_remote_workers()

    num_healthy_env_runners = num_remote_env_runners


class RemoteWorker:
    """A worker in an actor. Each method of `WorkerView` is called as `worker.method.remote(...)`."""

    def __init__(self, settings: WorkerSettings, handle: Any, index: int) -> None:
        """Reach the worker behind the handle of its runner."""
        self._settings, self._handle, self.worker_index = settings, handle, index

    def __getattr__(self, name: str) -> RemoteMethod:
        if name.startswith("_") or not callable(getattr(WorkerView, name, None)):
            raise AttributeError(
                f"a worker in an actor has no method {name!r}{did_you_mean(name, dir(WorkerView))}; "
                "worker.apply.remote(function) calls a function with the worker"
            )
        return RemoteMethod(self._settings, self._handle, name)


class RemoteMethod:
    """A method of a worker in an actor."""

    def __init__(self, settings: WorkerSettings, handle: Any, name: str) -> None:
        """Reach this method."""
        self._settings, self._handle, self._name = settings, handle, name

    def remote(self, *args: Any, **kwargs: Any) -> kernel.ObjectRef:
        """Call it, and return a reference to what it returns."""
        found: kernel.ObjectRef = self._handle.apply.remote(_call, self._settings, self._name, *args, **kwargs)
        return found


def _call(runner: EnvRunner, settings: WorkerSettings, name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(worker_of(runner, settings), name)(*args, **kwargs)


def _with_index(runner: EnvRunner, settings: WorkerSettings, func: Callable[[WorkerView, int], Any]) -> Any:
    return func(worker_of(runner, settings), runner.index)


class _WithoutIndex:
    """Calls a function of a worker with a worker and its number."""

    def __init__(self, func: Callable[[WorkerView], Any]) -> None:
        self._func = func

    def __call__(self, worker: WorkerView, index: int) -> Any:
        return self._func(worker)


class _ForEachPolicy:
    """Calls a function for each policy of a worker."""

    def __init__(self, func: Callable[..., Any], only_to_train: bool = False) -> None:
        self._func, self._only_to_train = func, only_to_train

    def __call__(self, worker: WorkerView) -> list[Any]:
        if self._only_to_train:
            return worker.foreach_policy_to_train(self._func)
        return worker.foreach_policy(self._func)


class _ForEachEnv:
    """Calls a function for each environment of a worker."""

    def __init__(self, func: Callable[..., Any], with_context: bool = False) -> None:
        self._func, self._with_context = func, with_context

    def __call__(self, worker: WorkerView) -> list[Any]:
        if self._with_context:
            return worker.foreach_env_with_context(self._func)
        return worker.foreach_env(self._func)


def _alive(runner: Any) -> bool:
    return True
