"""Arrow and pandas values arrive equal, uncopied where they can be, and alone."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy
import pandas
import pyarrow
import pytest
from kernel_serializer_arrow import plugin
from kernel_serializer_arrow.serializer import ARRAY_TYPES, ArrowSerializer

from kernel.conformance.serializer import SerializerConformance, ValueSerializer

ROWS = 20_000


def table() -> pyarrow.Table:
    columns = {
        "number": numpy.arange(ROWS),
        "text": [f"row {i}" if i % 7 else None for i in range(ROWS)],
        "list": [[i, i + 1] for i in range(ROWS)],
        "word": pyarrow.array(["a", "b"] * (ROWS // 2)).dictionary_encode(),
    }
    return pyarrow.table(columns).replace_schema_metadata({"made by": "a test"})


def frame() -> pandas.DataFrame:
    numbers = numpy.arange(ROWS, dtype=float)
    made = pandas.DataFrame({"x": numbers, "y": numbers * 2, "n": range(ROWS)})
    made["text"] = pandas.Series([f"row {i}" for i in range(ROWS)], dtype=object)
    made["gaps"] = pandas.Series([f"row {i}" if i % 3 else None for i in range(ROWS)], dtype=object)
    made["when"] = pandas.date_range("2020", periods=ROWS, freq="min", tz="UTC")
    made["kind"] = pandas.Categorical(["a", "b"] * (ROWS // 2))
    made["new text"] = pandas.array(["some", None] * (ROWS // 2), dtype="string")
    made.index = pandas.date_range("2021", periods=ROWS, freq="h", name="hour")
    made.attrs["unit"] = "m"
    return made


def dumps(value: Any) -> tuple[bytes, Any]:
    head, buffers, _ = ValueSerializer([ArrowSerializer()]).dumps(value)
    return head, buffers


def size(value: Any) -> int:
    head, buffers = dumps(value)
    return len(head) + sum(memoryview(buffer).nbytes for buffer in buffers)


def send(value: Any) -> Any:
    head, buffers = dumps(value)
    return ValueSerializer([ArrowSerializer()]).loads(head, [memoryview(bytes(buffer)) for buffer in buffers])


class TestArrow(SerializerConformance):
    make_serializer = staticmethod(ArrowSerializer)
    own_values = (
        table(),
        table().slice(5, 10),
        table().to_batches()[0],
        table().to_batches()[0].slice(7, 9),
        table().column("text"),
        table().column("list").chunk(0).slice(3, 20),
        table().slice(0, 0),
        table().to_batches()[0].slice(0, 0),
        table().column("text").slice(0, 0),
        table().column("list").chunk(0).slice(0, 0),
        pyarrow.table({}),
        frame(),
        frame()[10:20],
        frame()["text"],
        frame()["x"],
        pandas.DataFrame(),
        pandas.Series([], dtype=object),
    )


def test_offers_itself_by_name() -> None:
    assert plugin.kernel_serializers()["arrow"]().name == "arrow"
    assert plugin.kernel_contracts() == {"serializer": 1}


def test_offering_imports_nothing_heavy() -> None:
    code = "import sys, kernel_serializer_arrow.plugin as p; p.kernel_serializers()['arrow']().reducers();" + (
        "print([m for m in ('numpy', 'pyarrow', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_type_of_array_is_known() -> None:
    def concrete(cls: type) -> list[type]:
        below = [found for sub in cls.__subclasses__() if sub.__module__ == "pyarrow.lib" for found in concrete(sub)]
        return [cls, *below]

    abstract = {"BaseListArray", "NumericArray", "IntegerArray", "FloatingPointArray"}
    assert {cls.__qualname__ for cls in concrete(pyarrow.Array)} - abstract <= set(ARRAY_TYPES)


# -- Arrow ---------------------------------------------------------------------------------------------------------


def addresses(value: Any) -> set[int]:
    return {buffer.address for chunk in value.chunks for buffer in chunk.buffers() if buffer is not None}


def test_whole_tables_are_not_copied() -> None:
    value = table()
    head, buffers = dumps(value)
    assert len(head) < 5000
    there = {numpy.frombuffer(buffer, numpy.uint8).ctypes.data for buffer in buffers}
    assert min(addresses(value.column("number"))) in there
    again = ValueSerializer().loads(head, buffers)
    assert addresses(again.column("number")) == addresses(value.column("number"))
    assert addresses(again.column("text")) & there


@pytest.mark.parametrize("rows", [1, 100, 5000])
def test_slices_send_their_rows_alone(rows: int) -> None:
    value = table().slice(1000, rows)
    for part in (value, value.combine_chunks().to_batches()[0], value.column("list"), value.column("text").chunk(0)):
        assert send(part).equals(part)
        assert size(part) < part.nbytes * 1.3 + 8000
    assert len(pickle.dumps(value, 5)) > table().nbytes / 2
    assert send(value).schema.metadata == {b"made by": b"a test"}


def test_slices_are_read_in_place() -> None:
    head, buffers = dumps(table().slice(1000, 5000))
    stored = [memoryview(bytes(buffer)) for buffer in buffers]
    again = ValueSerializer().loads(head, stored)
    begin = numpy.frombuffer(stored[0], numpy.uint8).ctypes.data
    assert all(begin <= address < begin + len(stored[0]) for address in addresses(again.column("number")))


def test_almost_whole_slices_are_not_copied() -> None:
    value = table().slice(1)
    there = {numpy.frombuffer(buffer, numpy.uint8).ctypes.data for buffer in dumps(value)[1]}
    assert addresses(value.column("number")) & there


def test_sliced_extension_types_keep_their_type() -> None:
    class Celsius(pyarrow.ExtensionType):
        def __init__(self) -> None:
            super().__init__(pyarrow.float64(), "test.celsius")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> Any:
            return cls()

    array = pyarrow.ExtensionArray.from_storage(Celsius(), pyarrow.array(numpy.arange(float(ROWS)))).slice(5, 10)
    assert send(array).type.extension_name == "test.celsius"
    assert send(array).storage.equals(array.storage)


# -- pandas --------------------------------------------------------------------------------------------------------


def test_frames_keep_everything() -> None:
    value = frame()
    again = send(value)
    pandas.testing.assert_frame_equal(again, value, check_freq=True)
    assert again.attrs == {"unit": "m"}
    assert again.index.freq == value.index.freq
    assert list(again.dtypes) == list(value.dtypes)
    assert again["gaps"].iloc[0] is None
    again["text"] = again["text"] + "!"
    assert again["text"].iloc[1] == "row 1!"


def test_numbers_are_not_copied() -> None:
    value = pandas.DataFrame(numpy.arange(40_000.0).reshape(20_000, 2))
    head, buffers = dumps(value)
    assert any(numpy.shares_memory(numpy.frombuffer(b, numpy.uint8), value.to_numpy()) for b in buffers)
    stored = [memoryview(bytes(buffer)) for buffer in buffers]
    again = ValueSerializer().loads(head, stored)
    assert any(numpy.shares_memory(numpy.frombuffer(b, numpy.uint8), again.to_numpy()) for b in stored)


def test_text_travels_out_of_band() -> None:
    value = frame()[["text", "gaps"]]
    head, buffers = dumps(value)
    assert len(head) < 10_000
    assert buffers
    assert len(ValueSerializer().dumps(value)[0]) > 200_000


def test_text_that_repeats_stays_small() -> None:
    long = "a rather long word that occurs many times " * 10
    value = pandas.DataFrame({"a": pandas.Series([long, None, "b"] * 5000, dtype=object)})
    assert size(value) < 100_000
    pandas.testing.assert_frame_equal(send(value), value)
    assert send(value)["a"].iloc[1] is None


class Text(str):
    pass


@pytest.mark.parametrize(
    "odd", [float("nan"), 1, b"bytes", Text("x"), "\ud800", pandas.NA, ["list"], numpy.str_("x")], ids=repr
)
def test_columns_that_are_not_text_alone_are_left_to_pickle(odd: Any) -> None:
    values = [f"text {i}" for i in range(300)]
    column = pandas.Series([*values, odd, *values], dtype=object)
    came = send(pandas.DataFrame({"a": column}))["a"].iloc[300]
    assert type(came) is type(odd)
    assert repr(came) == repr(odd)


def test_several_text_columns_in_one_block_and_odd_labels() -> None:
    letters = numpy.array([f"t{i}" for i in range(600)], dtype=object)
    for order in ("C", "F"):
        block = numpy.asarray(letters.reshape(200, 3), order=order)
        value = pandas.DataFrame(block, columns=["a", "a", ("b", 1)], dtype=object)
        pandas.testing.assert_frame_equal(send(value), value)


def test_views_and_series_of_frames() -> None:
    value = frame()
    for part in (value.iloc[::2], value["text"], value["gaps"].iloc[5:500], value.T.iloc[:, :200], value[["text"]]):
        came = send(part)
        assert type(came) is type(part)
        assert came.equals(part)


def test_shared_frames_stay_shared() -> None:
    value = frame()
    first, second = send([value, value])
    assert first is second
