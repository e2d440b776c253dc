"""zlib passes the conformance suite, and compresses what is worth it."""

from __future__ import annotations

import random

import pytest
from kernel_serializer_zlib import plugin
from kernel_serializer_zlib.serializer import ZlibSerializer

from kernel.conformance.serializer import SerializerConformance, ValueSerializer
from kernel_spec.serialization import Payload


class TestZlib(SerializerConformance):
    make_serializer = staticmethod(ZlibSerializer)


def test_offers_itself_by_name() -> None:
    assert plugin.kernel_serializers()["zlib"]().name == "zlib"
    assert plugin.kernel_contracts() == {"serializer": 1}


def test_large_payloads_shrink() -> None:
    text = "the same words again " * 50_000
    head, buffers, _ = ValueSerializer([ZlibSerializer()]).dumps(text)
    assert len(head) < len(text) / 50
    assert ValueSerializer([ZlibSerializer()]).loads(head, buffers) == text


def test_small_and_incompressible_payloads_are_left_alone() -> None:
    serializer = ZlibSerializer()
    noise = random.Random(1).randbytes(100_000)
    for payload in (Payload(b"x" * 100), Payload(b"x", [b"y" * 100]), Payload(noise), Payload(b"x", [noise])):
        assert serializer.encode(payload) is payload


def test_buffers_that_would_not_shrink_are_not_copied() -> None:
    noise = random.Random(1).randbytes(100_000)
    encoded = ZlibSerializer().encode(Payload(b"head", [noise, bytes(100_000)]))
    assert encoded.buffers[0] is noise
    assert len(encoded.buffers[1]) < 1000


def test_buffers_that_were_lost_are_noticed() -> None:
    encoded = ZlibSerializer().encode(Payload(b"head", [bytes(100_000)]))
    with pytest.raises(ValueError, match="the head is for 1 buffers, but 0 came"):
        ZlibSerializer().decode(encoded.head, [])
