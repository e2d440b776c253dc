"""Batches as lines of JSON, as RLlib has written them since its first releases.

A line is an object: `type` says whether it is a `SampleBatch` or a `MultiAgentBatch`, and the columns of a batch are
lists, or texts where they are packed: an array, pickled, as a frame of LZ4, in base64.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.errors import DataError
from kernel_rllib.offline.array_pickles import of_pickle, to_pickle
from kernel_rllib.offline.lz4_frames import can_pack, of_frame, to_frame

ONE, MANY = "SampleBatch", "MultiAgentBatch"


def pack(array: Array) -> str:
    """Return an array as a text that `unpack` reads, and RLlib's own function of that name.

    Raises:
        DataError: If it is an array of objects.
        MissingDependencyError: If pyarrow is not installed.
    """
    return base64.b64encode(to_frame(to_pickle(array))).decode("ascii")


def unpack(text: str) -> Any:
    """Return the array that a text was packed of; nothing that is in it runs.

    Raises:
        DataError: If it is none.
        MissingDependencyError: If pyarrow is not installed.
    """
    try:
        frame = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError(f"a column is a text and not packed ({error}): columns are lists, or packed arrays") from None
    return of_pickle(of_frame(frame))


def to_line(batch: Batch | MultiAgentBatch, compress_columns: Collection[str] = ()) -> str:
    """Return a batch as one line, without its end.

    Args:
        batch: The batch.
        compress_columns: The names of the columns that are packed. Without pyarrow they are lists as well.
    """
    if compress_columns and not can_pack():
        compress_columns = ()
    if isinstance(batch, MultiAgentBatch):
        policies = {name: _columns(part, compress_columns) for name, part in batch.policy_batches.items()}
        return json.dumps({"type": MANY, "count": batch.count, "policy_batches": policies})
    return json.dumps({"type": ONE, **_columns(batch, compress_columns)})


def of_line(line: str | bytes) -> Batch | MultiAgentBatch:
    """Return the batch that a line holds.

    Raises:
        DataError: If it is no such line, or damaged.
        MissingDependencyError: If columns of it are packed, and pyarrow is not installed.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"it is not JSON ({error})") from None
    kind = found.pop("type", None) if isinstance(found, dict) else None
    if kind == ONE:
        return _batch(found)
    if kind == MANY:
        policies = found.get("policy_batches")
        if not isinstance(policies, dict) or not all(isinstance(part, dict) for part in policies.values()):
            raise DataError('a MultiAgentBatch has no "policy_batches", an object with the columns of each policy')
        batches = {name: _batch(part) for name, part in policies.items()}
        longest = max((part.count for part in batches.values()), default=0)
        return MultiAgentBatch(batches, int(found.get("count", longest)))
    raise DataError(f'its "type" is {kind!r}, and neither "{ONE}" nor "{MANY}"')


def _columns(batch: Mapping[str, Array], packed: Collection[str]) -> dict[str, Any]:
    return {
        name: pack(column) if name in packed and not column.dtype.hasobject else _listed(name, column)
        for name, column in batch.items()
    }


def _listed(name: str, column: Array) -> list[Any]:
    found: list[Any] = column.tolist()
    if column.dtype.hasobject:
        try:
            return json.loads(json.dumps(found, default=_of_numpy))  # type: ignore[no-any-return]
        except (TypeError, ValueError) as error:
            raise DataError(f"the column {name!r} holds what JSON has no form for ({error}): leave it out") from None
    return found


def _of_numpy(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__}")


def _batch(found: Mapping[str, Any]) -> Batch:
    return Batch({name: _column(name, value) for name, value in found.items()})


def _column(name: str, value: Any) -> Array:
    if isinstance(value, str):
        value = unpack(value)
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, list):
        raise DataError(f"the column {name!r} is {value!r:.40}, and neither a list nor a packed array")
    if any(isinstance(entry, dict) for entry in value):
        return _objects(value)
    try:
        column = np.asarray(value)
    except ValueError:  # entries of different lengths
        return _objects(value)
    return column.astype(np.float32) if column.dtype == np.float64 else column


def _objects(entries: list[Any]) -> Array:
    column = np.empty(len(entries), object)
    column[:] = entries
    return column
