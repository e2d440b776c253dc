"""What transfer services say to each other: whole, in pieces, and wrong."""

from __future__ import annotations

import random

import pytest
from kernel_network_tcp.transfer import protocol

from kernel_spec.errors import ProtocolError
from kernel_spec.ids import ObjectId

NAME = ObjectId(b"object-of-20-bytes--")
WANT = protocol.Want(NAME, 1000, 100, 50, 1.5, "tcp://10.0.0.7:6380/transfer", True)
END = protocol.WantNoMore(NAME, "tcp://10.0.0.7:6380/transfer", True)


@pytest.mark.parametrize("request_", [WANT, END], ids=["want", "end"])
def test_a_request_is_read_when_it_is_complete(request_: protocol.Want | protocol.WantNoMore) -> None:
    data = protocol.encode_request(request_)
    assert all(protocol.decode_request(data[:count]) is None for count in range(len(data)))
    assert protocol.decode_request(data + b"\x01more") == (request_, len(data))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({0: 9}, "a peer speaks version 9 of object transfer, this node 1"),
        ({1: 7}, "a peer sent a request of kind 7"),
        ({40: 255}, "a peer asked for 4278190130 bytes from 100 on, of an object of 1000 bytes"),
        ({32: 255}, "of an object of 1000 bytes"),
        ({44: 255}, "waits 60 s at most"),
        ({48: 255}, "not UTF-8"),
    ],
)
def test_nonsense_is_refused(change: dict[int, int], text: str) -> None:
    data = bytearray(protocol.encode_request(WANT))
    for place, value in change.items():
        data[place] = value
    with pytest.raises(ProtocolError, match=text):
        protocol.decode_request(data)


def test_noise_does_nothing_but_raise() -> None:
    source = random.Random(7)
    for _ in range(2000):
        data = bytes([1, *source.randbytes(400)])
        try:
            found = protocol.decode_request(data)
        except ProtocolError:
            continue
        assert found is None or found[1] <= len(data)


def test_an_address_that_is_too_long_is_named() -> None:
    with pytest.raises(ProtocolError, match="more than 255 bytes"):
        protocol.encode_request(protocol.WantNoMore(NAME, "x" * 256, False))


def test_answers() -> None:
    head = protocol.decode_head(protocol.encode_bytes_head(50, 77), 50)
    assert head == protocol.AnswerHeader(protocol.BYTES, 50, 77)
    data = protocol.encode_text(protocol.ABSENT, "gone")
    assert protocol.decode_head(data[: protocol.ANSWER_BYTES], 50) == protocol.AnswerHeader(protocol.ABSENT, 4, 0)
    assert data[protocol.ANSWER_BYTES :] == b"gone"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x02" + protocol.encode_bytes_head(50)[1:], "answered in version 2"),
        (b"\x01\x09" + protocol.encode_bytes_head(50)[2:], "an answer of kind 9"),
        (protocol.encode_bytes_head(51), "answered with 51 bytes where 50 were asked for"),
        (b"\x01\x03\x7f" + bytes(7), "a text of"),
    ],
)
def test_answers_that_do_not_fit_are_refused(data: bytes, text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        protocol.decode_head(data, 50)


def test_long_texts_are_cut_between_addresses_and_letters() -> None:
    data = protocol.encode_text(protocol.REDIRECT, "\n".join(["a" * 1000] * 9))
    assert data[protocol.ANSWER_BYTES :].decode().split("\n") == ["a" * 1000] * 4
    text = protocol.encode_text(protocol.BUSY, "ö" * 3000)[protocol.ANSWER_BYTES :]
    assert text.decode() == "ö" * 2048
