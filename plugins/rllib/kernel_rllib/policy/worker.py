"""One worker as programs of all generations ask for it: a runner with its policies."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.each import WithContext
from kernel_rllib.errors import RLlibError, UnknownPolicyError
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.policy.rollout_metrics import RolloutMetrics, keep_metrics, take_metrics
from kernel_rllib.policy.runner_policies import policies_of_runner
from kernel_rllib.policy.worker_settings import WorkerSettings
from kernel_rllib.runners.env_runner import EnvRunner
from kernel_rllib.spaces.preprocessors import Preprocessor


class WorkerView:
    """One worker: its policies, and its environments where it has any.

    Attributes:
        worker_index: 0 beside the learner, from 1 elsewhere.
        policy_map: Its policies by their ids.
        policy_config: The settings, as a dict.
    """

    def __init__(
        self, settings: WorkerSettings, policies: Mapping[str, Any], runner: EnvRunner | None, index: int
    ) -> None:
        """Show a worker; without a runner it has no environments."""
        self.worker_index, self.policy_map, self.policy_config = index, dict(policies), settings.config
        self._settings, self._runner = settings, runner

    def get_policy(self, policy_id: str = DEFAULT_POLICY_ID) -> Any:
        """Return a policy. Raises UnknownPolicyError, a KeyError, if there is none of that id."""
        if policy_id not in self.policy_map:
            raise UnknownPolicyError(
                f"there is no policy {policy_id!r}{did_you_mean(policy_id, self.policy_map)}; there are "
                f"{', '.join(self.policy_map)}"
            )
        return self.policy_map[policy_id]

    def foreach_policy(self, func: Callable[..., Any], **kwargs: Any) -> list[Any]:
        """Return what `func(policy, policy_id)` returns for each policy."""
        return [func(policy, policy_id, **kwargs) for policy_id, policy in self.policy_map.items()]

    def for_policy(self, func: Callable[..., Any], policy_id: str = DEFAULT_POLICY_ID, **kwargs: Any) -> Any:
        """Return what `func(policy)` returns for one policy. Raises UnknownPolicyError if there is none of that id."""
        return func(self.get_policy(policy_id), **kwargs)

    def foreach_policy_to_train(self, func: Callable[..., Any], **kwargs: Any) -> list[Any]:
        """Return what `func(policy, policy_id)` returns for each policy that learns."""
        return [func(self.policy_map[name], name, **kwargs) for name in self.get_policies_to_train()]

    foreach_trainable_policy = foreach_policy_to_train

    def get_policies_to_train(self, batch: Any = None) -> list[str]:
        """Return the ids of the policies that learn: from this batch, where a function of the user's decides by it."""
        return [name for name in self.policy_map if self.is_policy_to_train(name, batch)]

    def is_policy_to_train(self, policy_id: str, batch: Any = None) -> bool:
        """Return whether a policy learns; see `get_policies_to_train`."""
        return self._settings.is_to_train(policy_id, batch)

    def get_weights(self, policies: Sequence[str] | None = None) -> dict[str, dict[str, Array]]:
        """Return the weights of policies by their ids; of all that have any where none are named."""
        with_weights = [name for name, policy in self.policy_map.items() if hasattr(policy, "get_weights")]
        return {name: self.get_policy(name).get_weights() for name in policies or with_weights}

    def set_weights(self, weights: Mapping[str, Mapping[str, Any]], *ignored: Any) -> None:
        """Go on with what `get_weights` returned."""
        for name, found in weights.items():
            self.get_policy(name).set_weights(found)

    def sample(self) -> Batch | MultiAgentBatch:
        """Step the environments as often as the settings say, and return what happened, episode after episode.

        Raises:
            RLlibError: If this worker has no environments.
        """
        runner = self._with_envs("sample")
        sample = runner.sample(self._settings.steps[self.worker_index])
        keep_metrics(runner, sample)
        if list(sample.fragments) == [DEFAULT_POLICY_ID]:
            return batch_of(sample.fragments[DEFAULT_POLICY_ID])
        batches = {policy_id: batch_of(fragment) for policy_id, fragment in sample.fragments.items()}
        return MultiAgentBatch(batches, sample.env_steps)

    def sample_with_count(self) -> tuple[Batch | MultiAgentBatch, int]:
        """Return what `sample` does, and how many steps these are."""
        batch = self.sample()
        return batch, batch.count

    def get_metrics(self) -> list[RolloutMetrics]:
        """Return the episodes that ended in its environments since this was last asked, in their order.

        Those of samples that an algorithm has asked for are in its results, and not here.
        """
        return [] if self._runner is None else take_metrics(self._runner)

    def learn_on_batch(self, samples: Mapping[str, Any]) -> dict[str, Any]:
        """Let policies learn from a batch; see `PolicyView.learn_on_batch`.

        Args:
            samples: A batch of the only policy, or a `MultiAgentBatch` of several: those learn that are to be trained.
        """
        if not isinstance(samples, MultiAgentBatch):
            return {DEFAULT_POLICY_ID: self.get_policy().learn_on_batch(samples)}
        batches = samples.policy_batches
        chosen = [name for name in batches if self.is_policy_to_train(name, samples)]
        return {name: self.get_policy(name).learn_on_batch(batches[name]) for name in chosen}

    def foreach_env(self, func: Callable[[Any], Any]) -> list[Any]:
        """Return what the function returns for each environment; an empty list where there are none."""
        return [] if self._runner is None else self._runner.sampler.envs.foreach(func)

    def foreach_env_with_context(self, func: Callable[[Any, Any], Any]) -> list[Any]:
        """Return what `func(env, context)` returns for each; the context is the `env_config` with its numbers."""
        context = EnvContext(self._settings.blueprint.envs.config, worker_index=self.worker_index)
        return [] if self._runner is None else self._runner.sampler.envs.foreach(WithContext(func, context))

    @property
    def env(self) -> Any:
        """The first of its environments; None where it has none."""
        found = self.foreach_env(_itself)
        return found[0] if found else None

    @property
    def preprocessors(self) -> dict[str, Preprocessor]:
        """The preprocessors, which make rows of observations, by the ids of policies."""
        return self._settings.preprocessors()

    @property
    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters of rows, by the ids of policies. They change nothing, since the preprocessors filter already."""
        return {name: _unfiltered for name in self.policy_map}

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns for this worker."""
        return func(self, *args, **kwargs)

    def get_host(self) -> str:
        """Return the name of the machine that it is on."""
        return socket.gethostname()

    def _with_envs(self, asked: str) -> EnvRunner:
        if self._runner is None:
            raise RLlibError(
                f"the local worker has no environments, so it can't {asked}: with num_env_runners (num_workers) above "
                "0 they are in the others, workers.remote_workers(). Set it to 0 to have them here."
            )
        return self._runner


def worker_of(runner: EnvRunner, settings: WorkerSettings) -> WorkerView:
    """Return a runner as a worker, whose policies act with the parameters that the runner has."""
    return WorkerView(settings, policies_of_runner(runner, settings), runner, runner.index)


def batch_of(fragment: Fragment) -> Batch:
    """Return a fragment as the batch that older programs expect: lane after lane, with `new_obs`, `dones` and `eps_id`.

    `eps_id` counts the pieces of episodes within the batch; `t` the steps from the start of each piece.
    """
    steps, lanes = fragment.shape
    found = {**fragment.columns, columns.NEXT_OBS: fragment.next_obs()}
    for index, state in enumerate(fragment.state_in.values()):
        found[f"{columns.STATE_IN}_{index}"] = state
    found.pop(columns.RESETS, None)
    ends = found[columns.TERMINATEDS] | found[columns.TRUNCATEDS]
    begins = np.zeros((steps, lanes), bool)
    begins[0], begins[1:] = True, ends[:-1]
    starts = np.maximum.accumulate(np.where(begins, np.arange(steps)[:, None], 0), axis=0)
    found |= {
        columns.DONES: ends,
        columns.T: np.arange(steps)[:, None] - starts,
        columns.AGENT_INDEX: np.zeros((steps, lanes), np.int64),
    }
    flat = {name: column.swapaxes(0, 1).reshape(steps * lanes, *column.shape[2:]) for name, column in found.items()}
    flat[columns.EPS_ID] = np.cumsum(begins.swapaxes(0, 1).ravel()) - 1
    batch = Batch(flat)
    if fragment.valid is None:
        return batch
    return batch.take(np.flatnonzero(fragment.valid.swapaxes(0, 1).ravel()))


def _itself(env: Any) -> Any:
    return env


def _unfiltered(row: Any, update: bool = False) -> Any:
    return row
