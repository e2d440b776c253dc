"""How values lie in the store: everything comes back, aligned, and the size is known before."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_engine.serialization.layout import pack, packed_size, unpack

BUFFERS = st.lists(
    st.one_of(st.binary(max_size=300), st.binary(max_size=300).map(bytearray), st.binary(max_size=300).map(memoryview)),
    max_size=6,
)


@settings(deadline=None)
@given(head=st.binary(max_size=500), buffers=BUFFERS, slack=st.integers(0, 100))
def test_what_is_packed_comes_back(head, buffers, slack):
    size = packed_size(head, buffers)
    memory = bytearray(b"\xaa" * (size + slack))
    pack(memoryview(memory)[:size], head, buffers)
    assert memory[size:] == b"\xaa" * slack
    again, views = unpack(memoryview(memory).toreadonly())
    assert bytes(again) == head
    assert [bytes(view) for view in views] == [bytes(buffer) for buffer in buffers]


@settings(deadline=None)
@given(head=st.binary(max_size=500), buffers=BUFFERS)
def test_buffers_are_aligned_and_do_not_overlap(head, buffers):
    size = packed_size(head, buffers)
    memory = numpy.zeros(size + 64, numpy.uint8)
    start = -memory.ctypes.data % 64
    pack(memoryview(memory)[start : start + size], head, buffers)
    _, views = unpack(memoryview(memory)[start : start + size])
    end = 0
    for view in views:
        if view.nbytes:
            address = numpy.frombuffer(view, numpy.uint8).ctypes.data - memory.ctypes.data - start
            assert address % 64 == 0
            assert address >= end
            end = address + view.nbytes
    assert end <= size


@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_large_buffers(size):
    data = numpy.random.default_rng(0).integers(0, 255, size, numpy.uint8)
    memory = bytearray(packed_size(b"head", [data]))
    pack(memoryview(memory), b"head", [data])
    _, (view,) = unpack(memoryview(memory))
    assert (numpy.frombuffer(view, numpy.uint8) == data).all()


def test_arrays_of_wider_items_are_counted_in_bytes():
    data = numpy.arange(100.0)
    memory = bytearray(packed_size(b"", [data]))
    pack(memoryview(memory), b"", [data])
    assert (numpy.frombuffer(unpack(memoryview(memory))[1][0]) == data).all()


def test_views_read_the_same_memory():
    memory = bytearray(packed_size(b"h", [b"12345"]))
    pack(memoryview(memory), b"h", [b"12345"])
    _, (view,) = unpack(memoryview(memory))
    memory[-5:] = b"54321"
    assert bytes(view) == b"54321"
