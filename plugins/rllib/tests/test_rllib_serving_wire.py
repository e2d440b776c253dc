"""Values as bytes: what comes back, what can't be sent, and bodies that are no values."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_rllib.errors import DataError
from kernel_rllib.serving.wire import ARRAYS, JSON, packed, unpacked

KEYS = st.text(max_size=4) | st.integers(-5, 5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize("kind", [JSON, ARRAYS])
@given(value=VALUES)
def test_plain_values_come_back(kind: str, value: Any) -> None:
    assert unpacked(packed(value, kind), kind) == value


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1", "?", ">i4"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4), (2, 3, 4)])
def test_arrays_come_back_bit_for_bit(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(24)[: int(np.prod(shape))].reshape(shape).astype(dtype)
    found = unpacked(packed({"a": array, "b": [array.T]}, ARRAYS), ARRAYS)
    assert found["a"].dtype == array.dtype
    np.testing.assert_array_equal(found["a"], array)
    np.testing.assert_array_equal(found["b"][0], array.T)


def test_arrays_are_lists_in_json() -> None:
    assert json.loads(packed({"obs": np.array([[1, 2]]), "reward": np.float32(0.5)}, JSON)) == {
        "obs": [[1, 2]],
        "reward": 0.5,
    }


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "(object) can't be sent: send numbers, texts, arrays of numbers"),
        (np.array([object()]), "an array of dtype object can't be sent: send numbers"),
        ({1, 2}, "(set) can't be sent"),
    ],
)
def test_what_is_no_plain_value_is_not_sent(value: Any, message: str) -> None:
    with pytest.raises(DataError) as raised:
        packed({"x": value}, ARRAYS)
    assert message in str(raised.value)


def _body(text: str, rest: bytes = b"") -> bytes:
    return struct.pack("<4sI", b"KAR1", len(text)) + text.encode() + rest


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b"{", JSON, "a body of 1 bytes is no value of application/json"),
        (b"\xff\xfe", JSON, "a body of 2 bytes is no value"),
        (b"[" * 100_000, JSON, "is no value of application/json"),
        (b"", ARRAYS, "a body of 0 bytes is no value of application/x-kernel-arrays"),
        (b"PK\x03\x04\x00\x00\x00\x00", ARRAYS, "not with b'KAR1'"),
        (struct.pack("<4sI", b"KAR1", 2**31), ARRAYS, "its JSON has 2147483648 bytes, and 0 are there"),
        (_body('{"$array": ["<f4", [4], 0]}', b"\0" * 15), ARRAYS, "an array of 16 bytes at 0 is beyond the 15 there"),
        (_body('{"$array": ["<f4", [1], -4]}', b"\0" * 8), ARRAYS, "describes no array of numbers"),
        (_body('{"$array": ["<f4", [-1], 0]}', b"\0" * 8), ARRAYS, "describes no array of numbers"),
        (_body('{"$array": ["O", [1], 0]}', b"\0" * 8), ARRAYS, "describes no array of numbers"),
        (_body('{"$array": ["<f4", [1099511627776, 1099511627776], 0]}', b"\0" * 8), ARRAYS, "is beyond the 8 there"),
        (b'{"$items": [[[], 1]]}', JSON, "can't be the key of a dict"),
        (b"{}", "application/x-python-pickle", "the content type is 'application/x-python-pickle', but must be"),
    ],
)
def test_bodies_that_are_no_values_are_refused(body: bytes, kind: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        unpacked(body, kind)
    assert message in str(raised.value)


@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    for body in (data, b"KAR1" + data):
        try:
            value = unpacked(body, ARRAYS)
        except DataError:
            continue
        assert packed(value, ARRAYS)
