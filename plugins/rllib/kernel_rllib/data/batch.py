"""Batch: columns of equal length, and the views of it that learners and users take.

A column is an array whose first axis counts rows; one row is one step of one agent. Slices are views: nothing is copied
until rows are gathered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.errors import DataError


class Batch(dict[str, Array]):
    """A mapping of column names to arrays with the same number of rows. Users know it as `SampleBatch`."""

    OBS = CUR_OBS = columns.OBS
    NEXT_OBS = columns.NEXT_OBS
    ACTIONS = columns.ACTIONS
    REWARDS = columns.REWARDS
    TERMINATEDS = columns.TERMINATEDS
    TRUNCATEDS = columns.TRUNCATEDS
    DONES = columns.DONES
    INFOS = columns.INFOS
    PREV_ACTIONS = columns.PREVIOUS_ACTIONS
    PREV_REWARDS = columns.PREVIOUS_REWARDS
    ACTION_DIST_INPUTS = columns.ACTION_DIST_INPUTS
    ACTION_LOGP = columns.ACTION_LOGP
    ACTION_PROB = columns.ACTION_PROB
    VF_PREDS = columns.VF_PREDS
    EPS_ID = columns.EPS_ID
    UNROLL_ID = columns.UNROLL_ID
    AGENT_INDEX = columns.AGENT_INDEX
    SEQ_LENS = columns.SEQ_LENS
    WEIGHTS = columns.WEIGHTS
    BATCH_INDEXES = columns.BATCH_INDEXES
    T = columns.T

    def __init__(self, *parts: Mapping[str, Any] | Iterable[tuple[str, Any]], **named: Any) -> None:
        """Take columns as a dict takes its items; lists become arrays. Raises DataError when lengths differ."""
        super().__init__()
        for name, column in dict(*parts, **named).items():
            super().__setitem__(name, np.asarray(column))
        self._require_equal_lengths()

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return next((len(column) for column in self.values()), 0)

    def env_steps(self) -> int:
        """Return the number of steps of the environment: of one agent, that of rows."""
        return self.count

    def agent_steps(self) -> int:
        """Return the number of steps of agents: that of rows."""
        return self.count

    def __getitem__(self, key: Any) -> Any:
        """Return a column by its name, or rows as a batch by a slice."""
        if isinstance(key, slice):
            return self._of({name: column[key] for name, column in self.items()})
        return super().__getitem__(key)

    def __setitem__(self, name: str, column: Any) -> None:
        """Set a column. Raises DataError when it has another number of rows than the others."""
        array = np.asarray(column)
        if any(other != name for other in self) and len(array) != self.count:
            raise DataError(
                f"the column {name!r} has {len(array)} rows, but the batch has {self.count}: all columns of a batch "
                f"have one entry a step. Give it {self.count} rows, or make a batch of its own."
            )
        super().__setitem__(name, array)

    def slice(self, start: int, end: int) -> Batch:
        """Return the rows from `start` up to and without `end`, as views."""
        return self._of({name: column[start:end] for name, column in self.items()})

    def only(self, names: Iterable[str]) -> Batch:
        """Return a batch with these columns only, those of them that there are; the same arrays."""
        return self._of({name: self[name] for name in names if name in self})

    def take(self, rows: Array) -> Batch:
        """Return the rows with these numbers, copied."""
        return self._of({name: column.take(rows, axis=0) for name, column in self.items()})

    def copy(self, shallow: bool = False) -> Batch:
        """Return a batch with copies of all columns, or with the same arrays if `shallow`."""
        return self._of({name: column if shallow else column.copy() for name, column in self.items()})

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a plain dict."""
        for row in range(self.count):
            yield {name: column[row] for name, column in self.items()}

    def columns(self, names: Sequence[str]) -> list[Array]:
        """Return the columns with these names, in this order."""
        return [self[name] for name in names]

    def shuffle(self, stream: np.random.Generator | None = None) -> Batch:
        """Put the rows into an order drawn from `stream`, in this batch, and return it; None: into any order."""
        order = (stream or np.random.default_rng()).permutation(self.count)
        for name, column in self.items():
            super().__setitem__(name, column.take(order, axis=0))
        return self

    def timeslices(self, length: int) -> list[Batch]:
        """Return pieces of `length` rows each, in order; the last may be shorter."""
        return [self.slice(start, start + length) for start in range(0, self.count, length)]

    def split_by_episode(self, key: str | None = None) -> list[Batch]:
        """Return one batch for each episode, in order.

        Args:
            key: The column that tells episodes apart: `"eps_id"`, or `"dones"` for the flags at their ends. By default
                the first of the two that there is. Also `"terminateds"` with `"truncateds"` count as `"dones"`.

        Raises:
            DataError: If there is no such column.
        """
        starts = self._starts_of_episodes(key)
        ends = [*starts[1:], self.count]
        return [self.slice(start, end) for start, end in zip(starts, ends, strict=True) if end > start]

    def minibatches(
        self, size: int, stream: np.random.Generator, *, epochs: int = 1, shuffle: bool = True
    ) -> Iterator[Batch]:
        """Yield batches of `size` rows, `epochs` times over all rows.

        With `shuffle` each time is in a new order drawn from `stream`, and otherwise in the order of the rows.

        Rows that are left over when `size` does not divide their number are left out of that epoch; if there are fewer
        rows than `size`, all of them make one batch.
        """
        count = self.count
        size = min(size, count)
        for _ in range(epochs):
            order = stream.permutation(count) if shuffle else np.arange(count)
            for start in range(0, count - size + 1, max(size, 1)):
                yield self.take(order[start : start + size])

    def as_multi_agent(self, policy_id: str = "default_policy") -> MultiAgentBatch:
        """Return a batch of many policies that holds this one only."""
        return MultiAgentBatch({policy_id: self}, self.count)

    @staticmethod
    def concat_samples(batches: Sequence[Batch | MultiAgentBatch]) -> Batch | MultiAgentBatch:
        """Return all rows of the batches, in order; see `concatenated`."""
        return concatenated(batches)

    def concat(self, other: Batch) -> Batch:
        """Return the rows of this batch, and then those of the other."""
        return _joined([self, other])

    def _of(self, found: Mapping[str, Array]) -> Batch:
        batch = type(self).__new__(type(self))
        dict.update(batch, found)
        return batch

    def _starts_of_episodes(self, key: str | None) -> list[int]:
        if key in (None, columns.EPS_ID) and columns.EPS_ID in self:
            ids = self[columns.EPS_ID]
            return [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist()]
        if key in (None, columns.DONES) and (dones := self._dones()) is not None:
            return [0, *(np.flatnonzero(dones[:-1]) + 1).tolist()]
        raise DataError(
            f"this batch can't be split into episodes: it has neither {key or columns.EPS_ID!r} nor flags of their "
            f"ends, only {sorted(self)}. Add the column {columns.EPS_ID!r}, with one number for all rows of an episode."
        )

    def _dones(self) -> Array | None:
        if columns.TERMINATEDS in self and columns.TRUNCATEDS in self:
            either: Array = np.logical_or(self[columns.TERMINATEDS], self[columns.TRUNCATEDS])
            return either
        return self.get(columns.DONES)

    def _require_equal_lengths(self) -> None:
        lengths = {name: column.shape[0] if column.ndim else None for name, column in self.items()}
        if len(set(lengths.values())) > 1 or None in lengths.values():
            raise DataError(
                f"the columns of a batch have different numbers of rows: {lengths}. All need one entry a step."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {column.dtype}{list(column.shape)}" for name, column in self.items())
        return f"{type(self).__name__}({self.count} rows; {shapes})"


class MultiAgentBatch:
    """Batches of several policies that came from the same steps of the environment."""

    def __init__(self, policy_batches: Mapping[str, Batch], env_steps: int) -> None:
        """Take the batch of each policy, and how many steps of the environment they came from."""
        self.policy_batches = dict(policy_batches)
        self.count = env_steps

    def __len__(self) -> int:
        return self.count

    def env_steps(self) -> int:
        """Return the number of steps of the environment, however many agents acted in each."""
        return self.count

    def agent_steps(self) -> int:
        """Return the number of steps of agents: the rows of all policies."""
        return sum(batch.count for batch in self.policy_batches.values())

    def __getitem__(self, policy_id: str) -> Batch:
        return self.policy_batches[policy_id]

    def as_multi_agent(self) -> MultiAgentBatch:
        """Return this batch."""
        return self

    def copy(self) -> MultiAgentBatch:
        """Return a batch with copies of all columns."""
        return MultiAgentBatch({key: batch.copy() for key, batch in self.policy_batches.items()}, self.count)

    @staticmethod
    def wrap_as_needed(policy_batches: Mapping[str, Batch], env_steps: int) -> Batch | MultiAgentBatch:
        """Return the only batch if it is of the default policy, else a batch of many policies."""
        if list(policy_batches) == ["default_policy"]:
            return policy_batches["default_policy"]
        return MultiAgentBatch(policy_batches, env_steps)

    @staticmethod
    def concat_samples(batches: Sequence[Batch | MultiAgentBatch]) -> Batch | MultiAgentBatch:
        """Return all rows of the batches, in order; see `concatenated`."""
        return concatenated([batch.as_multi_agent() for batch in batches])

    def __repr__(self) -> str:
        return f"MultiAgentBatch({self.count} env steps; {self.policy_batches!r})"


def concatenated(batches: Sequence[Batch | MultiAgentBatch]) -> Batch | MultiAgentBatch:
    """Return all rows of the batches, in order; of one policy if all are.

    Raises:
        DataError: If the batches have different columns.
    """
    if not any(isinstance(batch, MultiAgentBatch) for batch in batches):
        return _joined([batch for batch in batches if isinstance(batch, Batch)])
    many = [batch.as_multi_agent() for batch in batches]
    by_policy: dict[str, list[Batch]] = {}
    for part in many:
        for policy_id, batch in part.policy_batches.items():
            by_policy.setdefault(policy_id, []).append(batch)
    joined = {policy_id: _joined(parts) for policy_id, parts in by_policy.items()}
    return MultiAgentBatch(joined, sum(part.count for part in many))


def _joined(batches: Sequence[Batch]) -> Batch:
    full = [batch for batch in batches if batch.count]
    if len(full) <= 1:
        return full[0] if full else Batch()
    names = set(full[0])
    for batch in full[1:]:
        if set(batch) != names:
            raise DataError(
                f"batches with different columns can't be joined: one has {sorted(names)}, another {sorted(batch)}. "
                "Drop the columns that only some of them have, or fill them in."
            )
    return Batch({name: np.concatenate([batch[name] for batch in full]) for name in full[0]})
