"""A reader of what a policy does in an environment, for mixtures with recorded experience, and to be written."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch, MultiAgentBatch, concatenated
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.offline.action_rows import RecordedActions
from kernel_rllib.offline.input_reader import InputReader
from kernel_rllib.offline.rows import ended, rows_of
from kernel_rllib.runners.contract import LaneSampler


class Recorder:
    """Makes batches, as files have them, of fragments that follow one another; it numbers episodes and their steps."""

    def __init__(self, actions: Mapping[str, RecordedActions], seed: int) -> None:
        """Record.

        Args:
            actions: Turns the actions of each policy, by its id.
            seed: The seed of the numbers of episodes.
        """
        self._actions = actions
        self._numbers = np.random.default_rng(seed)
        self._open: dict[tuple[str, int], tuple[int, int]] = {}
        self._previous: dict[tuple[str, int], tuple[np.ndarray, float]] = {}
        self._unrolls = 0

    def batch(self, fragments: Mapping[str, Fragment], env_steps: int) -> Batch | MultiAgentBatch:
        """Return the steps of fragments by policy, lane after lane; of the default policy alone as its batch."""
        found = {}
        for policy_id, fragment in fragments.items():
            lanes = zip(fragment.lanes.tolist(), rows_of(fragment), strict=True)
            parts = [self._numbered(policy_id, lane, rows) for lane, rows in lanes if rows.count]
            whole = concatenated(parts)
            assert isinstance(whole, Batch)
            found[policy_id] = whole
        return MultiAgentBatch.wrap_as_needed(found, env_steps)

    def _numbered(self, policy_id: str, lane: int, rows: Batch) -> Batch:
        """Add what numbers the steps of a lane, and the step before each."""
        ends = ended(rows)
        if policy_id in self._actions:
            rows[columns.ACTIONS] = self._actions[policy_id].to_file(rows[columns.ACTIONS])
        numbers, times = np.empty(rows.count, np.int64), np.empty(rows.count, np.int64)
        episode, time = self._open.get((policy_id, lane), (self._new(), 0))
        for row in range(rows.count):
            numbers[row], times[row] = episode, time
            episode, time = (self._new(), 0) if ends[row] else (episode, time + 1)
        self._open[policy_id, lane] = episode, time
        rows[columns.EPS_ID], rows[columns.T] = numbers, times
        rows[columns.AGENT_INDEX] = np.full(rows.count, lane if policy_id != "default_policy" else 0)
        rows[columns.UNROLL_ID] = np.full(rows.count, self._unrolls)
        self._unrolls += 1
        actions, rewards = rows[columns.ACTIONS], rows[columns.REWARDS]
        before = self._previous.get((policy_id, lane), (np.zeros_like(actions[0]), 0.0))
        self._previous[policy_id, lane] = actions[-1].copy(), float(rewards[-1])
        starts = times == 0
        for name, column, last in (
            (columns.PREVIOUS_ACTIONS, actions, before[0]),
            (columns.PREVIOUS_REWARDS, rewards, before[1]),
        ):
            made = np.concatenate([np.asarray(last, column.dtype)[None], column[:-1]])
            made[starts] = 0
            rows[name] = made
        return rows

    def _new(self) -> int:
        return int(self._numbers.integers(2**31))


class SamplerInput(InputReader):
    """Steps an environment, and returns what happened as a file would have it."""

    def __init__(self, sampler: LaneSampler, recorder: Recorder, steps: int) -> None:
        """Step the lanes of this sampler, `steps` times for a batch."""
        self.sampler, self._recorder, self._steps = sampler, recorder, steps

    def next(self) -> Batch | MultiAgentBatch:
        """Return what the next steps brought."""
        collected = self.sampler.collect(self._steps)
        return self._recorder.batch(collected.fragments, collected.env_steps)

    def close(self) -> None:
        """Let the environments go."""
        self.sampler.close()
