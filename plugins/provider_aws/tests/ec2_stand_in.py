"""EC2 for tests: moto's server, and before it what moto lacks of EC2's ways.

A ClientToken makes machines once in each zone, and with other settings is refused. New machines are pending for a
while. Lists are late, and come in pages. As a test wants it, calls come too fast, zones have no capacity, and answers
get lost.
"""

from __future__ import annotations

import contextlib
import io
import re
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs
from xml.etree import ElementTree

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
ElementTree.register_namespace("", NAMESPACE)
_Q = "{*}"  # moto has several


class Quiet(WSGIRequestHandler):
    """Writes no line for a request, and keeps connections open."""

    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        """Say nothing."""


class Ec2StandIn:
    """The server. `clock` returns seconds; tests set what goes wrong."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self.clock = clock
        self._truth: Any = None
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.asked: list[dict[str, str]] = []
        """The parameters of each RunInstances."""
        self.forget()
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=Quiet)
        self.endpoint = f"http://127.0.0.1:{self._server.port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def forget(self) -> None:
        """Be as new; machines stay."""
        self._tokens: dict[tuple[str, str], tuple[str, bytes]] = {}
        self._made_at: dict[str, float] = {}
        self._lists: deque[tuple[float, bytes]] = deque(maxlen=50)
        self._pages: dict[str, list[Any]] = {}
        self.fail: Callable[[str, dict[str, str]], str] = lambda action, given: ""
        """Returns an error's code, "drop" to break the connection before, "lose" to do so after the call; else ""."""
        self.lag_seconds = self.pending_seconds = 0.0
        self.page_size = self.room = 1000
        self.answers: dict[str, str] = {}
        """Actions whose answer is given: the inside of its XML."""
        self.calls.clear()
        self.asked.clear()

    def stop(self) -> None:
        """End the server."""
        if self._truth is not None:
            self._truth.close()
        self._server.shutdown()
        self._server.server_close()

    def living(self) -> list[dict[str, Any]]:
        """Return the machines that there are in truth, ended and stopped ones left out."""
        client = self._truth = self._truth or self._client()
        states = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping"]}]
        found = [
            one for page in client.get_paginator("describe_instances").paginate(Filters=states)
            for reservation in page["Reservations"] for one in reservation["Instances"]
        ]  # fmt: skip
        return found

    def _client(self) -> Any:
        client = boto3.client("ec2", endpoint_url=self.endpoint)
        client.meta.events.register("before-sign.ec2", lambda request, **_: request.headers.add_header("x-truth", "1"))
        return client

    # -- one call --------------------------------------------------------------------------------------------------

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Any:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        given = {name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()}
        action = given.get("Action", "")
        if not action or "HTTP_X_TRUTH" in environ:
            return self._moto(environ, start_response)
        with self._lock:
            self.calls[action] += 1
            trouble = self.fail(action, given)
            if trouble == "drop":
                return _broken(environ)
            if trouble and trouble != "lose":
                return _error(start_response, trouble)
            status, headers, answer = self._done(action, given, environ)
            if trouble == "lose":
                return _broken(environ)
        start_response(status, [(name, value) for name, value in headers if name.lower() != "content-length"])
        return [answer]

    def _done(self, action: str, given: dict[str, str], environ: dict[str, Any]) -> tuple[str, Any, bytes]:
        if action in self.answers:
            return _ok(f'<{action}Response xmlns="{NAMESPACE}">{self.answers[action]}</{action}Response>'.encode())
        if action == "RunInstances":
            return self._run(given, environ)
        if action != "DescribeInstances":
            return self._real(environ)
        if "NextToken" in given:
            return _ok(self._page(given["NextToken"]))
        status, headers, answer = self._real(environ)
        if not status.startswith("200"):
            return status, headers, answer
        if not any("kernel-token" in value or "instance-state-name" in value for value in given.values()):
            answer = self._late(answer)
        return _ok(self._paged(self._pending(answer)))

    def _real(self, environ: dict[str, Any]) -> tuple[str, Any, bytes]:
        said: list[Any] = []
        parts = self._moto(environ, lambda status, headers, exc=None: said.extend([status, headers]))
        answer = b"".join(parts)
        return said[0], said[1], answer

    def _run(self, given: dict[str, str], environ: dict[str, Any]) -> tuple[str, Any, bytes]:
        self.asked.append(given)
        key = given.get("ClientToken", ""), given.get("SubnetId", "")
        rest = repr(sorted(given.items()))
        body: bytes = environ["wsgi.input"].getvalue()
        if key in self._tokens:
            known, answer = self._tokens[key]
            if known != rest:
                return _error_parts("IdempotentParameterMismatch")
            return _ok(answer)
        many = min(int(given["MaxCount"]), self.room)  # moto makes as few as it may, EC2 as many as it can
        environ["wsgi.input"] = io.BytesIO(
            re.sub(rb"\bMinCount=\d+", b"MinCount=%d" % many, re.sub(rb"\bMaxCount=\d+", b"MaxCount=%d" % many, body))
        )
        environ["CONTENT_LENGTH"] = str(len(environ["wsgi.input"].getvalue()))
        status, headers, answer = self._real(environ)
        if status.startswith("200"):
            self._tokens[key] = rest, answer
            for id in re.findall(rb"<instanceId>(i-[0-9a-f]+)</instanceId>", answer):
                self._made_at[id.decode()] = self.clock()
        return status, headers, answer

    def _late(self, answer: bytes) -> bytes:
        now = self.clock()
        self._lists.append((now, answer))
        return next(said for at, said in self._lists if now - at <= self.lag_seconds or said is answer)

    def _pending(self, answer: bytes) -> ElementTree.Element:
        root = ElementTree.fromstring(answer)
        for one in root.iter(f"{_Q}item"):
            id, state = one.findtext(f"{_Q}instanceId"), one.find(f"{_Q}instanceState")
            if id is None or state is None or state.findtext(f"{_Q}name") != "running":
                continue
            if self.clock() - self._made_at.get(id, -1e9) < self.pending_seconds:
                state.find(f"{_Q}name").text, state.find(f"{_Q}code").text = "pending", "0"  # type: ignore[union-attr]
        return root

    def _paged(self, root: ElementTree.Element) -> bytes:
        every = root.find(f"{_Q}reservationSet")
        if every is not None and len(every) > self.page_size:
            rest = list(every)[self.page_size :]
            for item in rest:
                every.remove(item)
            token = f"page-{len(self._pages)}"
            self._pages[token] = rest
            ElementTree.SubElement(root, f"{{{NAMESPACE}}}nextToken").text = token
        return ElementTree.tostring(root)

    def _page(self, token: str) -> bytes:
        root = ElementTree.Element(f"{{{NAMESPACE}}}DescribeInstancesResponse")
        ElementTree.SubElement(root, f"{{{NAMESPACE}}}reservationSet").extend(self._pages[token])
        return self._paged(root)


def _ok(answer: bytes) -> tuple[str, Any, bytes]:
    return "200 OK", [("Content-Type", "text/xml")], answer


def _error_parts(code: str) -> tuple[str, Any, bytes]:
    text = (
        f"<Response><Errors><Error><Code>{code}</Code><Message>the test says {code}</Message></Error></Errors>"
        "<RequestID>r</RequestID></Response>"
    )
    throttled = code == "RequestLimitExceeded"
    return "503 Slow" if throttled else "400 Bad Request", [("Content-Type", "text/xml")], text.encode()


def _error(start_response: Any, code: str) -> list[bytes]:
    status, headers, answer = _error_parts(code)
    start_response(status, headers)
    return [answer]


def _broken(environ: dict[str, Any]) -> Iterator[bytes]:
    """Break the connection without an answer."""
    with contextlib.suppress(OSError):
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionError("broken by the test")
