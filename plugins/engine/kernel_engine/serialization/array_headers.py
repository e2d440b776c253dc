"""Cache of numpy pickle headers: arrays of one dtype and shape share theirs, and differ in their data alone.

Numpy pickles an array as `prefix + data + suffix` (data in band), or with one header for all (data out of band). Both
are learnt by letting numpy pickle an array, so the result equals numpy's own for a read-only array byte for byte:
received arrays are read-only, however small they are.
"""

from __future__ import annotations

import pickle
from typing import Any

_PROTOCOL = 5
_MEMORY_LIMIT = 1024

_inside: dict[tuple[Any, ...], tuple[bytes, bytes] | None] = {}
_outside: dict[tuple[Any, ...], bytes] = {}


def offers_buffer(array: Any) -> bool:
    """Say whether numpy gives away the memory of `array` as it is: not of times, nor with gaps."""
    return array.flags.forc and array.dtype.kind not in "mM"  # type: ignore[no-any-return]


def reduce_array(array: Any) -> tuple[Any, ...]:
    """Return what `__reduce_ex__` would, but with one buffer also for times and for arrays with gaps."""
    if array.dtype.hasobject or offers_buffer(array):
        return array.__reduce_ex__(_PROTOCOL)  # type: ignore[no-any-return]
    if not array.flags.forc:
        array = array.copy()
    if array.dtype.kind in "mM":
        return _viewed, (array.view("i8"), array.dtype)
    return array.__reduce_ex__(_PROTOCOL)  # type: ignore[no-any-return]


def _viewed(array: Any, dtype: Any) -> Any:
    return array.view(dtype)


def pickle_inside(array: Any) -> bytes | None:
    """Return the pickle of a small `numpy.ndarray` of plain numbers, data and all, None if there is no such pickle."""
    if not array.flags.c_contiguous or array.dtype.kind in "mM":
        return None
    key = (array.dtype, array.shape)
    try:
        ends = _inside[key]
    except KeyError:
        ends = _learn_inside(array, key)
    if ends is None:
        return None
    data: bytes = array.tobytes()
    return ends[0] + data + ends[1]


def pickle_outside(array: Any) -> tuple[bytes, memoryview] | None:
    """Return the head of a large `numpy.ndarray` of plain numbers and its data, None if there is no such head."""
    if not array.flags.c_contiguous or not offers_buffer(array):
        return None
    key = (array.dtype, array.shape, array.flags.writeable)
    head = _outside.get(key)
    if head is None:
        if len(_outside) >= _MEMORY_LIMIT:
            _outside.clear()
        head = _outside[key] = pickle.dumps(array, _PROTOCOL, buffer_callback=lambda _: False)
    return head, pickle.PickleBuffer(array).raw()


def _learn_inside(array: Any, key: tuple[Any, ...]) -> tuple[bytes, bytes] | None:
    """Find where the data is by pickling two arrays that differ in every byte."""
    import numpy

    pickles = []
    for byte in (b"\x00", b"\xff"):
        filled = numpy.frombuffer(byte * array.nbytes, array.dtype).reshape(array.shape)  # Read-only, as the bytes are.
        pickles.append(pickle.dumps(filled, _PROTOCOL))
    zeros, ones = pickles
    different = [index for index, (a, b) in enumerate(zip(zeros, ones, strict=True)) if a != b]
    ends = None
    if len(different) == array.nbytes and different[-1] - different[0] == array.nbytes - 1:
        ends = zeros[: different[0]], zeros[different[-1] + 1 :]
    if len(_inside) >= _MEMORY_LIMIT:
        _inside.clear()
    _inside[key] = ends
    return ends
