"""Batches of several policies that are built row by row, by agent, for experience that comes from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.errors import DataError
from kernel_rllib.first_generation.sample_batch_builder import SampleBatchBuilder


class MultiAgentSampleBatchBuilder:
    """Takes rows by agent, and makes a batch by policy. Each agent's rows are postprocessed by its policy."""

    def __init__(self, policy_map: Mapping[str, Any], clip_rewards: bool = False, callbacks: Any = None) -> None:
        """Begin without rows.

        Args:
            policy_map: The policies by their ids. One with `postprocess_trajectory` is asked for what it makes of a
                batch; None for one that does not.
            clip_rewards: Whether rewards become their signs.
            callbacks: Callbacks, as an object with `on_postprocess_trajectory` or as a dict of functions by event,
                which are called for each agent's batch.
        """
        self._policies, self._clips = dict(policy_map), clip_rewards
        self._callback = _callback_of(callbacks)
        self._agents: dict[Any, tuple[str, SampleBatchBuilder]] = {}
        self._built: dict[str, list[Batch]] = {name: [] for name in self._policies}
        self.count = 0
        """The number of steps of the environment, which whoever adds rows counts."""

    def total(self) -> int:
        """Return how many rows agents have that are not postprocessed yet."""
        return sum(builder.count for _, builder in self._agents.values())

    def has_pending_agent_data(self) -> bool:
        """Return whether there are such rows."""
        return bool(self._agents)

    def add_values(self, agent_id: Any, policy_id: str, **values: Any) -> None:
        """Add a row of an agent.

        Args:
            agent_id: The agent.
            policy_id: The policy that acts for it, in all rows until the next postprocessing.
            values: The row.

        Raises:
            DataError: If there is no such policy, another one acted for the agent before, or the row has not the
                columns of those before.
        """
        if policy_id not in self._policies:
            raise DataError(
                f"there is no policy {policy_id!r} that acts for agent {agent_id!r}: the builder was made with "
                f"{', '.join(self._policies) or 'none'}"
            )
        before, builder = self._agents.setdefault(agent_id, (policy_id, SampleBatchBuilder()))
        if before != policy_id:
            raise DataError(
                f"the rows of agent {agent_id!r} were those of the policy {before!r}, and now there is one of "
                f"{policy_id!r}: call postprocess_batch_so_far() before another policy acts for it"
            )
        builder.add_values(**values)

    def postprocess_batch_so_far(self, episode: Any = None) -> None:
        """Postprocess the rows of all agents, each with those of the others beside it, and add them to their policies.

        Args:
            episode: The episode that they are of, as policies and callbacks are given it.
        """
        pending = {
            agent: (policy_id, builder.build_and_reset()) for agent, (policy_id, builder) in self._agents.items()
        }
        self._agents = {}
        if self._clips:
            for _, batch in pending.values():
                batch[columns.REWARDS] = np.sign(batch[columns.REWARDS])
        processed = {}
        for agent, (policy_id, batch) in pending.items():
            policy = self._policies[policy_id]
            others = {other: (self._policies[name], each) for other, (name, each) in pending.items() if other != agent}
            process = getattr(policy, "postprocess_trajectory", None)
            processed[agent] = batch if process is None else process(batch, others, episode)
        for agent, (policy_id, original) in pending.items():
            self._tell(episode, agent, policy_id, processed[agent], original, pending)
            self._built[policy_id].append(Batch(processed[agent]))

    def build_and_reset(self, episode: Any = None) -> MultiAgentBatch:
        """Return the batches of all policies that have rows, and begin anew; what is not postprocessed yet is first."""
        self.postprocess_batch_so_far(episode)
        found = {name: Batch.concat_samples(batches) for name, batches in self._built.items() if batches}
        count, self.count = self.count, 0
        self._built = {name: [] for name in self._policies}
        return MultiAgentBatch(found, count)  # type: ignore[arg-type]

    def _tell(self, episode: Any, agent: Any, policy_id: str, processed: Any, original: Batch, pending: Any) -> None:
        if self._callback is None:
            return
        batches = {each: (self._policies[name], batch) for each, (name, batch) in pending.items()}
        self._callback(
            worker=None,
            episode=episode,
            agent_id=agent,
            policy_id=policy_id,
            policies=self._policies,
            postprocessed_batch=processed,
            original_batches=batches,
        )


def _callback_of(callbacks: Any) -> Callable[..., Any] | None:
    """Return the function that is called for each agent's batch: that of an object, or of a dict by event."""
    if not isinstance(callbacks, Mapping):
        found = getattr(callbacks, "on_postprocess_trajectory", None)
        return found if callable(found) else None
    function = callbacks.get("on_postprocess_traj")
    if function is None:
        return None
    return lambda *, episode, agent_id, postprocessed_batch, original_batches, **more: function(
        {
            "episode": episode,
            "agent_id": agent_id,
            "pre_batch": original_batches[agent_id],
            "post_batch": postprocessed_batch,
            "all_pre_batches": original_batches,
        }
    )
