"""The reducer of each type. Types go by name, so that offering this imports neither pyarrow nor pandas."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_serializer_arrow.frames import reduce_frame
from kernel_serializer_arrow.tables import reduce_array, reduce_batch, reduce_chunked_array, reduce_table
from kernel_spec.serialization import Reducer, SerializerBase

# "Decima32Array" is how Arrow spells it, in versions that have it.
ARRAY_TYPES = [
    "Array",
    "Bool8Array",
    "BooleanArray",
    "BinaryArray",
    "BinaryViewArray",
    "Date32Array",
    "Date64Array",
    "Decima32Array",
    "Decimal32Array",
    "Decimal64Array",
    "Decimal128Array",
    "Decimal256Array",
    "DictionaryArray",
    "DoubleArray",
    "DurationArray",
    "ExtensionArray",
    "FixedShapeTensorArray",
    "FixedSizeBinaryArray",
    "FixedSizeListArray",
    "FloatArray",
    "HalfFloatArray",
    "Int8Array",
    "Int16Array",
    "Int32Array",
    "Int64Array",
    "JsonArray",
    "LargeBinaryArray",
    "LargeListArray",
    "LargeListViewArray",
    "LargeStringArray",
    "ListArray",
    "ListViewArray",
    "MapArray",
    "MonthDayNanoIntervalArray",
    "NullArray",
    "OpaqueArray",
    "RunEndEncodedArray",
    "StringArray",
    "StringViewArray",
    "StructArray",
    "Time32Array",
    "Time64Array",
    "TimestampArray",
    "UInt8Array",
    "UInt16Array",
    "UInt32Array",
    "UInt64Array",
    "UnionArray",
    "UuidArray",
]


class ArrowSerializer(SerializerBase):
    """Reduces `pyarrow` tables, batches and arrays, and `pandas` frames and series."""

    name = "arrow"

    def reducers(self) -> Mapping[str, Reducer]:
        """Return full type name to reducer."""
        found: dict[str, Reducer] = {f"pyarrow.lib.{name}": reduce_array for name in ARRAY_TYPES}
        found["pyarrow.lib.ChunkedArray"] = reduce_chunked_array
        found["pyarrow.lib.RecordBatch"] = reduce_batch
        found["pyarrow.lib.Table"] = reduce_table
        # pandas 3 says "pandas.DataFrame", earlier ones name the module that has it.
        for module, name in (("pandas.core.frame", "DataFrame"), ("pandas.core.series", "Series")):
            found[f"{module}.{name}"] = found[f"pandas.{name}"] = reduce_frame
        return found
