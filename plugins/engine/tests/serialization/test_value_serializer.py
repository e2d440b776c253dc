"""Values to bytes and back, references on the way, plugins around it."""

from __future__ import annotations

import collections
import pickle
import subprocess
import sys
import threading
import types
from collections.abc import Sequence
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_engine.serialization.value_serializer import (
    OUT_OF_BAND_BYTES,
    ValueSerializer,
    current_load,
    note_reference,
    register_reference_type,
)
from kernel_spec.errors import ContractError, NotInitializedError, OptionError, SerializationError
from kernel_spec.serialization import Buffer, Payload, SerializerBase

atoms = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
values = st.recursive(
    atoms | st.complex_numbers(allow_nan=False) | st.frozensets(st.integers()),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.sets(st.integers())
    ),
    max_leaves=60,
)


class Reference:
    """What the runtime's references do."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.noted: bool | None = None

    def __reduce__(self) -> Any:
        self.noted = note_reference(self)
        return _reference_from, (self.name,)


def _reference_from(name: str) -> tuple[str, Any]:
    return name, current_load()


class PlainReference(Reference):
    pass


register_reference_type(PlainReference)


def round_trip(value: Any, serializer: ValueSerializer | None = None) -> Any:
    serializer = serializer or ValueSerializer()
    head, buffers, references = serializer.dumps(value)
    assert isinstance(head, bytes)
    assert not references
    read_only = [memoryview(bytes(buffer)) for buffer in buffers]
    return serializer.loads(head, read_only)


@given(values)
def test_round_trip(value: Any) -> None:
    again = round_trip(value)
    assert again == value
    assert type(again) is type(value)


@given(values)
def test_heads_are_what_pickle_can_read(value: Any) -> None:
    head, buffers, _ = ValueSerializer().dumps(value)
    assert pickle.loads(head, buffers=buffers) == value


def test_atoms_share_nothing_heavy() -> None:
    head, buffers, references = ValueSerializer().dumps(None)
    assert (head, len(buffers), len(references)) == (pickle.dumps(None, 5), 0, 0)


@pytest.mark.parametrize("size", [0, 1, OUT_OF_BAND_BYTES - 1, OUT_OF_BAND_BYTES, 1_000_000])
@pytest.mark.parametrize("make", [bytes, bytearray, lambda size: "x" * size])
def test_bytes_of_all_sizes(make: Any, size: int) -> None:
    value = make(size)
    assert round_trip(value) == value
    assert type(round_trip(value)) is type(value)


def test_large_bytes_are_not_copied_into_the_head() -> None:
    value = bytes(100_000)
    head, buffers, _ = ValueSerializer().dumps(value)
    assert len(head) < 200
    assert [memoryview(buffer).nbytes for buffer in buffers] == [100_000]


# -- arrays --------------------------------------------------------------------------------------------------------

ARRAYS = {
    "small": numpy.arange(10),
    "empty": numpy.array([]),
    "no dimension": numpy.array(3.5),
    "one": numpy.array([True]),
    "large": numpy.arange(10_000, dtype=numpy.float32).reshape(100, 100),
    "fortran": numpy.asfortranarray(numpy.arange(10_000.0).reshape(100, 100)),
    "strided": numpy.arange(20_000)[::2],
    "small strided": numpy.arange(20)[::2],
    "big endian": numpy.arange(10, dtype=">i4"),
    "text": numpy.array(["a", "bcd"]),
    "times": numpy.array(["2020-01-01"], dtype="datetime64[D]"),
    "many times": numpy.arange(10_000).astype("datetime64[s]").reshape(100, 100),
    "transposed times": numpy.arange(10_000).astype("timedelta64[ms]").reshape(100, 100).T,
    "every other time": numpy.arange(20_000).astype("datetime64[ns]")[::2],
    "every other column": numpy.arange(40_000.0).reshape(100, 400)[:, ::2],
    "large text": numpy.array(["abcdefgh", "b"] * 5000),
    "many records": numpy.zeros(3000, dtype=[("a", "i4"), ("b", "f8")]),
    "records": numpy.zeros(3, dtype=[("a", "i4"), ("b", "f8")]),
    "objects": numpy.array([1, "a", None], dtype=object),
    "complex": numpy.array([1j, 2]),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
def test_arrays(array: Any) -> None:
    for _ in range(2):  # the second time from memory
        for value in (array, [array, 1], {"a": array}):
            again = round_trip(value)
            again = again if value is array else next(iter(again.values() if isinstance(again, dict) else again))
            assert again.dtype == array.dtype
            assert again.shape == array.shape
            assert numpy.array_equal(again, array)


@given(st.integers(0, 40), st.sampled_from(["u1", "i4", "f8", "?", "c16", "S3", "M8[s]"]), st.randoms())
def test_small_arrays_keep_every_byte(length: int, dtype: str, random: Any) -> None:
    data = random.randbytes(length * numpy.dtype(dtype).itemsize)
    array = numpy.frombuffer(data, dtype)
    assert round_trip(array).tobytes() == data
    writable = array.copy()
    assert round_trip(writable).tobytes() == data
    if data and array.dtype.kind != "M":
        assert ValueSerializer().dumps(writable)[0] == pickle.dumps(array, 5)


def test_arrays_are_read_in_place_and_read_only() -> None:
    array = numpy.arange(10_000)
    head, buffers, _ = ValueSerializer().dumps(array)
    assert numpy.shares_memory(numpy.frombuffer(buffers[0], numpy.int64), array)
    stored = bytes(buffers[0])
    again = ValueSerializer().loads(head, [memoryview(stored)])
    assert numpy.shares_memory(again, numpy.frombuffer(stored, numpy.uint8))
    assert not again.flags.writeable


@pytest.mark.parametrize("name", ["many times", "transposed times", "every other time", "every other column"])
def test_large_arrays_of_all_kinds_stay_out_of_the_head(name: str) -> None:
    for value in (ARRAYS[name], [ARRAYS[name]], {"a": ARRAYS[name], "f": lambda: 1}):
        head, buffers, _ = ValueSerializer().dumps(value)
        assert len(head) < 1100
        assert [memoryview(buffer).nbytes for buffer in buffers] == [ARRAYS[name].nbytes]


@pytest.mark.parametrize("name", [name for name, array in ARRAYS.items() if not array.dtype.hasobject])
def test_arrays_of_all_sizes_and_kinds_arrive_read_only_wherever_they_are(name: str) -> None:
    array = ARRAYS[name][:3] if ARRAYS[name].ndim else ARRAYS[name]
    for again in (round_trip(array), round_trip([array])[0], round_trip({"a": array, "f": lambda: 1})["a"]):
        assert again.tobytes() == array.tobytes()
        assert not again.flags.writeable


def test_a_read_only_array_does_not_change_how_writable_ones_travel() -> None:
    read_only = numpy.arange(10_000)
    read_only.flags.writeable = False
    for array in (read_only, numpy.arange(10_000)):
        head, buffers, _ = ValueSerializer().dumps(array)
        own = [memoryview(bytearray(buffer)) for buffer in buffers]
        assert ValueSerializer().loads(head, own).flags.writeable is array.flags.writeable


@pytest.mark.parametrize("scalar", [numpy.float64(1.5), numpy.int8(3), numpy.bool_(True), numpy.datetime64("2020")])
def test_numpy_scalars(scalar: Any) -> None:
    assert round_trip(scalar) == scalar
    assert type(round_trip((scalar,))[0]) is type(scalar)


# -- what belongs to __main__, and what is local -------------------------------------------------------------------

PROGRAM = """
import sys
from kernel_engine.serialization.value_serializer import ValueSerializer

class Point:
    def __init__(self, x): self.x = x
    def double(self): return self.x * 2

def function(x): return helper(x) + 1
def helper(x): return x * 10

s = ValueSerializer()
for value in (Point(4), Point, function, [Point(4)], {"f": function}, (1, 2, lambda: function(1))):
    head, buffers, _ = s.dumps(value)
    sys.stdout.write(head.hex() + "\\n")
sys.stdout.write(s.dumps_function(function)[0].hex() + "\\n")
"""


def test_main_travels_by_value() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    loads = ValueSerializer().loads
    point, cls, function, points, by_name, three, sent = (loads(bytes.fromhex(line)) for line in done.stdout.split())
    assert point.double() == 8
    assert type(point) is cls is type(points[0])
    assert function(2) == sent(2) == by_name["f"](2) == 21
    assert three[2]() == 11


def test_closures_and_recursive_functions() -> None:
    def outer(n: int) -> Any:
        def factorial(k: int) -> int:
            return 1 if k < 2 else k * factorial(k - 1)

        return lambda: factorial(n)

    head, references = ValueSerializer().dumps_function(outer(5))
    assert ValueSerializer().loads(head)() == 120
    assert not references


def test_a_function_keeps_the_name_of_its_file_and_that_of_those_in_it() -> None:
    def outer() -> Any:
        return lambda: None

    head, _ = ValueSerializer().dumps_function(outer)
    arrived = ValueSerializer().loads(head)
    assert arrived.__code__.co_filename == arrived().__code__.co_filename == __file__
    assert arrived.__code__.co_firstlineno == outer.__code__.co_firstlineno


def test_importable_functions_go_by_reference() -> None:
    head, _ = ValueSerializer().dumps_function(collections.OrderedDict)
    assert ValueSerializer().loads(head) is collections.OrderedDict
    assert len(head) < 100


def test_shared_and_cyclic_structure_is_kept() -> None:
    shared = [1]
    first, second, cycle = round_trip([shared, shared, types.SimpleNamespace()])
    assert first is second
    looped: list[Any] = [object]
    looped.append(looped)
    again = round_trip(looped)
    assert again[1] is again
    assert cycle == types.SimpleNamespace()


def test_atom_subclasses_keep_their_type() -> None:
    Color = collections.namedtuple("Color", "r g")
    globals()["Color"] = Color
    Color.__module__, Color.__qualname__ = __name__, "Color"
    assert type(round_trip(Color(1, 2))).__name__ == "Color"
    assert round_trip(collections.Counter("aab")) == collections.Counter("aab")


# -- references ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Reference, PlainReference])
def test_references_are_captured_wherever_they_are(kind: Any) -> None:
    serializer = ValueSerializer()
    refs = [kind(str(i)) for i in range(4)]
    for value in (refs[0], refs, {"a": refs[0], "b": (refs[1], numpy.zeros(10_000))}, lambda: refs[2]):
        _, _, met = serializer.dumps(value)
        assert met
        assert all(ref.noted for ref in met)
        assert set(met) <= set(refs)
    _, met = serializer.dumps_function(lambda: refs)
    assert list(met) == refs


def test_references_outside_of_dumps_are_left_to_the_caller() -> None:
    reference = Reference("x")
    pickle.dumps(reference)
    assert reference.noted is False


def test_nested_dumps_keep_their_references_apart() -> None:
    serializer = ValueSerializer()
    inner, outer = Reference("inner"), Reference("outer")

    class Wrapper:
        def __reduce__(self) -> Any:
            self.met = serializer.dumps([inner])[2]
            return str, ("x",)

    wrapper = Wrapper()
    _, _, met = serializer.dumps([wrapper, outer])
    assert list(wrapper.met) == [inner]
    assert list(met) == [outer]


def test_failing_dumps_leaves_nothing_behind() -> None:
    reference = Reference("x")
    with pytest.raises(SerializationError):
        ValueSerializer().dumps([reference, threading.Lock()])
    pickle.dumps(reference)
    assert reference.noted is False


def test_context_reaches_what_is_loaded() -> None:
    serializer = ValueSerializer()
    head, buffers, _ = serializer.dumps([Reference("a")])
    assert serializer.loads(head, buffers, context="from there") == [("a", "from there")]
    assert serializer.loads(head, buffers) == [("a", None)]
    assert current_load() is None


def test_errors_of_the_kernel_pass_through() -> None:
    class Unborn:
        def __reduce__(self) -> Any:
            raise NotInitializedError("no session")

    with pytest.raises(NotInitializedError):
        ValueSerializer().dumps(Unborn())


# -- registered classes --------------------------------------------------------------------------------------------


class Connection:
    def __init__(self, address: str) -> None:
        self.address = address
        self.lock = threading.Lock()


def test_registered_classes() -> None:
    serializer = ValueSerializer()
    with pytest.raises(SerializationError):
        serializer.dumps(Connection("a"))
    serializer.register(Connection, lambda c: c.address, lambda address: Connection(address + "!"))
    head, buffers, _ = serializer.dumps([Connection("a")])
    assert ValueSerializer().loads(head, buffers)[0].address == "a!"
    serializer.deregister(Connection)
    serializer.deregister(Connection)
    with pytest.raises(SerializationError):
        serializer.dumps(Connection("a"))


def test_registering_numpy_arrays_is_obeyed() -> None:
    serializer = ValueSerializer()
    serializer.register(numpy.ndarray, lambda a: a.tolist(), tuple)
    assert round_trip(numpy.arange(3), serializer) == (0, 1, 2)
    assert round_trip([numpy.arange(3)], serializer) == [(0, 1, 2)]
    serializer.deregister(numpy.ndarray)
    assert isinstance(round_trip(numpy.arange(3), serializer), numpy.ndarray)


@pytest.mark.parametrize("cls", [int, dict, type, "Connection"])
def test_what_pickle_handles_itself_can_not_be_registered(cls: Any) -> None:
    with pytest.raises(OptionError, match="Register a class of your own"):
        ValueSerializer().register(cls, str, str)


# -- plugins -------------------------------------------------------------------------------------------------------


class Reversing:
    """Encodes heads of more than ten bytes backwards."""

    def __init__(self, name: str = "reversing", least: int = 10) -> None:
        self.name = name
        self.least = least

    def reducers(self) -> Any:
        return {f"{__name__}.Connection": lambda c: (str, (f"{self.name}:{c.address}",))}

    def encode(self, payload: Payload) -> Payload:
        if len(payload.head) <= self.least:
            return payload
        return Payload(payload.head[::-1], payload.buffers)

    def decode(self, head: bytes, buffers: Any) -> Payload:
        return Payload(head[::-1], buffers)


@given(values)
@settings(max_examples=50)
def test_round_trip_through_a_chain(value: Any) -> None:
    assert round_trip(value, ValueSerializer([Reversing("a"), Reversing("b", 30)])) == value


def test_first_plugin_that_knows_a_type_reduces_it() -> None:
    assert round_trip([Connection("x")], ValueSerializer([Reversing("a"), Reversing("b")])) == ["a:x"]


def test_payloads_left_alone_are_not_marked() -> None:
    serializer = ValueSerializer([Reversing()])
    assert serializer.dumps(1)[0] == ValueSerializer().dumps(1)[0]
    assert serializer.dumps("x" * 20)[0] != ValueSerializer().dumps("x" * 20)[0]
    assert ValueSerializer([Reversing()]).loads(memoryview(serializer.dumps("x" * 20)[0])) == "x" * 20


def test_encoding_keeps_references() -> None:
    reference = Reference("a")
    assert list(ValueSerializer([Reversing()]).dumps([reference] * 9)[2]) == [reference]


def test_serializers_that_only_reduce_are_not_asked_to_encode() -> None:
    class OnlyReduces(SerializerBase):
        name = "reduces"

    assert "dumps" not in vars(ValueSerializer([OnlyReduces()]))
    assert "dumps" in vars(ValueSerializer([OnlyReduces(), Reversing()]))
    assert OnlyReduces().decode(b"x", [b"y"]) == Payload(b"x", [b"y"])
    assert OnlyReduces().reducers() == {}


def test_missing_plugin_is_named() -> None:
    head, buffers, _ = ValueSerializer([Reversing()]).dumps("x" * 20)
    with pytest.raises(SerializationError, match="plugin 'reversing', which this process does not have .it has: none"):
        ValueSerializer().loads(head, buffers)


def test_failing_plugins_are_named() -> None:
    class Broken(Reversing):
        def encode(self, payload: Payload) -> Payload:
            raise ValueError("no disk")

        decode = encode  # type: ignore[assignment]

    with pytest.raises(SerializationError, match=r"'reversing' failed in encode\(\): ValueError: no disk"):
        ValueSerializer([Broken()]).dumps("x" * 20)
    head, _, _ = ValueSerializer([Reversing()]).dumps("x" * 20)
    with pytest.raises(SerializationError, match="'reversing' can't undo its encoding: TypeError"):
        ValueSerializer([Broken()]).loads(head)


@pytest.mark.parametrize("came", [Payload(b"noise"), Payload(b""), Payload(b"\x80\x05noise"), None, b"bytes"])
def test_what_is_decoded_to_no_value_is_refused_in_the_plugins_name(came: Any) -> None:
    class WrongKey(Reversing):
        def decode(self, head: bytes, buffers: Sequence[Buffer]) -> Payload:
            return came  # type: ignore[no-any-return]

    head, buffers, _ = ValueSerializer([Reversing()]).dumps("x" * 20)
    with pytest.raises(SerializationError, match="'reversing' (decoded is no value|can't undo its encoding)"):
        ValueSerializer([WrongKey()]).loads(head, buffers)


def test_what_rebuilding_a_value_raises_comes_as_it_is() -> None:
    head, buffers, _ = ValueSerializer([Reversing()]).dumps([Fails(), "x" * 20])
    with pytest.raises(ZeroDivisionError):
        ValueSerializer([Reversing()]).loads(head, buffers)


class Fails:
    """A value that can be sent, and not rebuilt."""

    def __reduce__(self) -> tuple[Any, ...]:
        return divmod, (1, 0)


def test_plugins_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ContractError, match="same name: a, a"):
        ValueSerializer([Reversing("a"), Reversing("a")])

    class Wrong(Reversing):
        def reducers(self) -> Any:
            return {Connection: str}

    with pytest.raises(ContractError, match="'reversing' must map full type names to functions"):
        ValueSerializer([Wrong()])


@pytest.mark.parametrize("head", [b"", b"garbage", b"K", b"K\x05ab", b"K\x01\x02\xff\xff", b"\x00"])
def test_bytes_that_are_not_ours(head: bytes) -> None:
    with pytest.raises(SerializationError, match="not a value that a kernel serialized"):
        ValueSerializer().loads(head)


def test_threads_do_not_meet() -> None:
    serializer = ValueSerializer()
    failures: list[BaseException] = []
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        try:
            barrier.wait()
            for i in range(200):
                mine = Reference(f"{number}-{i}")
                head, buffers, met = serializer.dumps({"ref": mine, "f": lambda kept=mine: kept, "a": numpy.arange(i)})
                assert list(met) == [mine]
                assert serializer.loads(head, buffers, context=number)["ref"] == (mine.name, number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_importing_it_does_not_import_what_is_heavy() -> None:
    code = "import sys, kernel_engine.serialization.value_serializer as s; s.ValueSerializer().dumps((1, 'a'));" + (
        "print([m for m in ('numpy', 'cloudpickle', 'pyarrow', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
