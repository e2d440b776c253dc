"""Headers of answers: those that HTTP can't have are refused where the answer is made."""

from __future__ import annotations

import asyncio
import re

import pytest
from kernel_serve.errors import DeploymentError
from kernel_serve.proxy.framing import BROKEN, head
from kernel_serve.replica.asgi import HTTPExchange, checked_headers, to_wire
from kernel_serve.wire.link import RequestLink


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (b"x-own", b"a\0b", "the header x-own of an answer has a NUL in its value, which HTTP can't have: 'a\\x00b'"),
        (b"x-own", b"a\r\nx-evil: b", "the header x-own of an answer has a line break in its value"),
        (b"x-own", b"a\n b", "the header x-own of an answer has a line break in its value"),
        (b"x own", b"a", "an answer has a header of the name 'x own': a name is made of letters, digits and"),
        (b"x-own: a\r\nx", b"a", "an answer has a header of the name 'x-own: a\\r\\nx'"),
        (b":status", b"200", "an answer has a header of the name ':status'"),
        (b"", b"a", "an answer has a header of the name ''"),
    ],
)
def test_a_header_that_http_can_not_have_is_refused_by_name(name: bytes, value: bytes, said: str) -> None:
    headers = [(b"content-type", b"text/plain"), (name, value)]
    message = {"type": "http.response.start", "status": 200, "headers": headers}
    exchange = RequestLink(lambda data: None).open({"type": "http"})
    with pytest.raises(DeploymentError, match=re.escape(said)):
        asyncio.run(HTTPExchange(exchange, b"", True).send(message))
    with pytest.raises(DeploymentError, match=re.escape(said)):
        to_wire({"type": "websocket.accept", "headers": headers})


def test_other_headers_stay_as_they_are() -> None:
    headers = [(b"X-Own", b""), (b"set-cookie", b"a=\xe4;\tb"), (b"set-cookie", b"c=d"), (b"!#$%&'*+-.^_`|~", b"1")]
    assert checked_headers(headers) == headers
    assert checked_headers([]) == []


@pytest.mark.parametrize("value", [b"a\0b", b"a\rb", b"a\nb"])
def test_the_proxy_sends_none_either(value: bytes) -> None:
    assert head(200, [(b"x-own", value)], "GET", "1.1", True, True, 0, b"date: x\r\n")[0] == BROKEN
