"""The conformance suite for serializers.

    from kernel_conformance.serializer import SerializerConformance

    class TestMine(SerializerConformance):
        make_serializer = staticmethod(MySerializer)

Run it with pytest. Say by class attributes what your serializer does besides, such as `own_values`.
"""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_spec.errors import SerializationError
from kernel_spec.serialization import Buffer, Payload, Serializer, SerializerBase

__all__ = ["SerializerConformance", "ValueSerializer"]


class SerializerConformance:
    """Every serializer's tests. `make_serializer` returns a new one."""

    make_serializer: Callable[[], Serializer]

    own_values: Sequence[Any] = ()
    """More values to send around: of the types that your reducers are for."""
    seeds: Sequence[int] = range(20)
    """Seeds of the generated values; a failure names the one that repeats it."""

    def equal(self, sent: Any, came: Any) -> bool:
        """Say whether a value arrived; override it for types whose `==` says something else."""
        return same(sent, came)

    def serializer(self) -> Serializer:
        """Return a new serializer."""
        return type(self).make_serializer()

    def send(self, value: Any) -> Any:
        """Serialize with one instance and read with another, from read-only memory, as another process would."""
        head, buffers, _ = ValueSerializer([self.serializer()]).dumps(value)
        stored = [memoryview(bytes(buffer)) for buffer in buffers]
        return ValueSerializer([self.serializer()]).loads(memoryview(head), stored)

    # -- the contract ----------------------------------------------------------------------------------------------

    def test_is_a_serializer_with_a_name(self) -> None:
        serializer = self.serializer()
        assert isinstance(serializer, Serializer)
        assert isinstance(serializer.name, str)
        assert serializer.name.isidentifier()
        assert len(serializer.name) < 100

    def test_reducers_are_functions_by_full_type_name(self) -> None:
        for name, reducer in self.serializer().reducers().items():
            assert isinstance(name, str)
            assert "." in name, f"{name!r} has no module; write such as 'pyarrow.lib.Table'"
            assert callable(reducer)

    # -- values ----------------------------------------------------------------------------------------------------

    def test_generated_values_arrive(self) -> None:
        for seed in self.seeds:
            value = generated(random.Random(seed))
            assert self.equal(value, self.send(value)), f"seed {seed}: {value!r:.300}"

    def test_empty_values_arrive(self) -> None:
        empty: list[Any] = [None, "", b"", 0, (), [], {}, set(), frozenset(), bytearray(), [[], {}, ()]]
        for value in empty:
            came = self.send(value)
            assert came == value
            assert type(came) is type(value)

    def test_arrays_arrive(self) -> None:
        import numpy

        for shape in ((0,), (1,), (10,), (1000, 3), (), (50_000,)):
            for dtype in ("f8", "i4", "?", "S3", "O"):
                value = numpy.ones(shape, dtype)
                for wrapped in (value, {"a": [value], "b": value}):
                    assert self.equal(wrapped, self.send(wrapped)), f"{shape} of {dtype}"

    def test_large_values_arrive(self) -> None:
        noise = random.Random(1).randbytes(300_000)
        for value in (noise, bytes(3_000_000), bytearray(noise), [noise, noise], "é" * 500_000):
            assert self.send(value) == value

    def test_functions_and_classes_arrive(self) -> None:
        offset = 3
        assert self.send(lambda x: x + offset)(4) == 7
        assert self.send({"f": dict})["f"] is dict

    def test_own_values_arrive(self) -> None:
        for value in self.own_values:
            for wrapped in (value, [value, value], {"a": (value, 1)}):
                assert self.equal(wrapped, self.send(wrapped)), f"{wrapped!r:.300}"

    def test_the_value_is_left_alone(self) -> None:
        for seed in self.seeds:
            value = generated(random.Random(seed))
            self.send(value)
            assert same(value, generated(random.Random(seed))), f"seed {seed}"

    # -- payloads --------------------------------------------------------------------------------------------------

    def payloads(self) -> list[Payload]:
        """Return payloads of many shapes; their buffers are of every kind that may come."""
        noise = random.Random(2)
        zeros = bytes(100_000)
        return [
            Payload(b""),
            Payload(b"x"),
            Payload(pickle.dumps(list(range(5000)), 5)),
            Payload(noise.randbytes(50_000)),
            Payload(b"head", [zeros]),
            Payload(b"head", [noise.randbytes(70_000), bytearray(zeros), memoryview(zeros)[10:20_000], b""]),
            Payload(zeros, [memoryview(bytearray(8000)).cast("I")]),
        ]

    def test_decode_undoes_encode(self) -> None:
        for number, payload in enumerate(self.payloads()):
            head, buffers = payload.head, [bytes(buffer) for buffer in payload.buffers]
            encoded = self.serializer().encode(payload)
            assert (payload.head, [bytes(buffer) for buffer in payload.buffers]) == (head, buffers), "it was changed"
            if encoded is payload:
                continue
            assert isinstance(encoded.head, bytes), "the head must be bytes"
            stored: list[Buffer] = [memoryview(bytes(buffer)) for buffer in encoded.buffers]
            decoded = self.serializer().decode(encoded.head, stored)
            assert decoded.head == head, f"payload {number}"
            assert [bytes(buffer) for buffer in decoded.buffers] == buffers, f"payload {number}"

    def test_broken_payloads_are_refused(self) -> None:
        """Bytes that were cut short or turned into noise raise, and the kernel names the plugin."""
        serializer = self.serializer()
        if type(serializer).encode is SerializerBase.encode:
            return
        chain = ValueSerializer([serializer])
        mark = b"K\x01" + bytes([len(serializer.name)]) + serializer.name.encode()
        for rest in (b"", b"\x00", b"\xff" * 5, random.Random(3).randbytes(1000)):
            try:
                chain.loads(mark + rest, [])
            except SerializationError as error:
                assert repr(serializer.name) in str(error), f"the error does not name the plugin: {error}"
            else:
                raise AssertionError(f"broken bytes were read: {mark + rest!r}")

    def test_threads_do_not_meet(self) -> None:
        serializer = ValueSerializer([self.serializer()])
        failures: list[str] = []
        start = threading.Barrier(4)

        def work(number: int) -> None:
            start.wait()
            for seed in self.seeds:
                value = [number, generated(random.Random(seed)), bytes(20_000)]
                head, buffers, _ = serializer.dumps(value)
                if not same(value, serializer.loads(head, buffers)):
                    failures.append(f"thread {number}, seed {seed}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []


def generated(source: random.Random, depth: int = 4) -> Any:
    """Return a value made of `source`: nested, of all basic types, sometimes with large parts."""
    makers: list[Callable[[], Any]] = [
        lambda: None,
        lambda: source.random() < 0.5,
        lambda: source.randint(-(2**70), 2**70),
        source.random,
        lambda: complex(source.random(), 1),
        lambda: "".join(chr(source.randint(32, 0xD000)) for _ in range(source.randint(0, 20))),
        lambda: source.randbytes(source.choice([0, 3, 5000, 100_000])),
        lambda: bytearray(source.randbytes(source.choice([0, 3, 5000]))),
        lambda: frozenset(source.randint(0, 9) for _ in range(4)),
        lambda: range(source.randint(0, 9)),
    ]
    if depth == 0 or source.random() < 0.3:
        return source.choice(makers)()
    items = [generated(source, depth - 1) for _ in range(source.randint(0, 4))]
    shapes: list[Callable[[Any], Any]] = [list, tuple, lambda parts: {f"key {i}": part for i, part in enumerate(parts)}]
    return source.choice(shapes)(items)


def same(left: Any, right: Any) -> bool:
    """Compare by type and value, through containers, where arrays may be."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(map(same, left.values(), right.values()))
    if hasattr(left, "dtype") and hasattr(left, "tobytes"):
        return bool(left.dtype == right.dtype and left.shape == right.shape and left.tolist() == right.tolist())
    if callable(getattr(left, "equals", None)):
        return bool(left.equals(right))
    return bool(left == right)
