"""Arrow's own types. Whole ones go as Arrow pickles them: buffers out of band, uncopied.

A slice shares the buffers of what it was cut from, and pickled as it is would take them all along. When what is not
seen weighs more than an eighth of what is, the slice is written as an IPC stream, which has its rows alone.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

_PROTOCOL = 5
_UNSEEN_BYTES = 4096
_UNSEEN_SHARE = 8

Reduced = tuple[Any, ...]


def reduce_table(table: Any) -> Reduced:
    """Return how a `pyarrow.Table` travels."""
    return _reduce(table, table.schema, _same, _table_of)


def reduce_batch(batch: Any) -> Reduced:
    """Return how a `pyarrow.RecordBatch` travels."""
    return _reduce(batch, batch.schema, _same, _batch_of)


def reduce_chunked_array(column: Any) -> Reduced:
    """Return how a `pyarrow.ChunkedArray` travels."""
    return _reduce(column, (column,), _table_of_column, _column_of)


def reduce_array(array: Any) -> Reduced:
    """Return how a `pyarrow.Array` of any type travels."""
    return _reduce(array, (array,), _batch_of_array, _array_of)


def _reduce(value: Any, typed: Any, as_written: Callable[[Any], Any], rebuild: Callable[[Any], Any]) -> Reduced:
    """Return Arrow's own reduction, or an IPC stream for what is mostly unseen.

    `as_written` makes the value a table, or a batch where one must be read back: of no rows, a table has no batch.
    """
    if not _is_mostly_unseen(value) or any(_has_extension(field.type) for field in typed):
        return value.__reduce_ex__(_PROTOCOL)  # type: ignore[no-any-return]
    import pyarrow

    written = as_written(value)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, written.schema) as writer:
        writer.write(written)
    return rebuild, (pickle.PickleBuffer(sink.getvalue()),)


def _is_mostly_unseen(value: Any) -> bool:
    held = value.get_total_buffer_size()
    if held < _UNSEEN_BYTES:
        return False
    try:
        seen = value.nbytes
    except NotImplementedError:  # some nested types can't say
        return False
    return bool(held - seen > max(_UNSEEN_BYTES, seen // _UNSEEN_SHARE))


def _has_extension(kind: Any) -> bool:
    """Say whether an extension type is in `kind`: a stream names those, and only who registered them can read it."""
    import pyarrow

    if isinstance(kind, pyarrow.BaseExtensionType):
        return True
    if isinstance(kind, pyarrow.DictionaryType):
        return _has_extension(kind.value_type)
    return any(_has_extension(kind.field(index).type) for index in range(kind.num_fields))


# -- to what is written and back -----------------------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


def _table_of_column(column: Any) -> Any:
    import pyarrow

    return pyarrow.table([column], names=[""])


def _batch_of_array(array: Any) -> Any:
    import pyarrow

    return pyarrow.record_batch([array], names=[""])


def _table_of(buffer: Any) -> Any:
    import pyarrow

    return pyarrow.ipc.open_stream(pyarrow.py_buffer(buffer)).read_all()


def _batch_of(buffer: Any) -> Any:
    import pyarrow

    return pyarrow.ipc.open_stream(pyarrow.py_buffer(buffer)).read_next_batch()


def _column_of(buffer: Any) -> Any:
    return _table_of(buffer).column(0)


def _array_of(buffer: Any) -> Any:
    return _batch_of(buffer).column(0)
