"""Batches that are built row by row, for experience that comes from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import DataError


class SampleBatchBuilder:
    """Takes rows, and makes a batch of them."""

    def __init__(self) -> None:
        """Begin without rows."""
        self._rows: dict[str, list[Any]] = {}
        self.count = 0
        self._unroll_id = 0

    def add_values(self, **values: Any) -> None:
        """Add a row.

        Raises:
            DataError: If it has not the columns of the rows before.
        """
        self._require_columns(values)
        for name, value in values.items():
            self._rows.setdefault(name, []).append(value)
        self.count += 1

    def add_batch(self, batch: Mapping[str, Any]) -> None:
        """Add the rows of a batch."""
        for row in Batch(batch).rows():
            self.add_values(**row)

    def build_and_reset(self) -> Batch:
        """Return a batch of all rows, with a number of its own as `unroll_id`, and begin anew."""
        found = {name: np.asarray(values) for name, values in self._rows.items()}
        if found:
            found.setdefault(columns.UNROLL_ID, np.full(self.count, self._unroll_id))
        self._rows, self.count = {}, 0
        self._unroll_id += 1
        return Batch(found)

    def _require_columns(self, values: Mapping[str, Any]) -> None:
        if self.count and values.keys() != self._rows.keys():
            missing = sorted(self._rows.keys() - values.keys())
            new = sorted(values.keys() - self._rows.keys())
            what = f"has no {', '.join(missing)}" if missing else f"has {', '.join(new)} besides"
            raise DataError(
                f"row {self.count} {what}, but the rows before have the columns {sorted(self._rows)}: all rows of a "
                "batch need the same ones"
            )
