"""The gRPC server: a thread with a loop of its own, which asks the head everything. Importing this loads grpc.

Every call has to show the session's token, before anything of its request is read.
"""

from __future__ import annotations

import asyncio
import hmac
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from kernel_control_grpc.errors import NotAllowedError, NotServedError, bases_of, code_of
from kernel_control_grpc.feeds import Close
from kernel_control_grpc.head_line import HeadLine
from kernel_control_grpc.mailbox import Mailbox
from kernel_control_grpc.protocol import ERROR_KEY, METHODS, Method, messages
from kernel_control_grpc.services import SERVICES
from kernel_processes.head.control_plane import ServedHead
from kernel_processes.transport.refusal_log import RefusalLog
from kernel_spec.errors import GetTimeoutError, InternalError, KernelError, ProtocolError, SessionEndedError
from kernel_spec.tls_files import TlsFiles

CALL_SECONDS = 60.0
"""Seconds that a call without a deadline of its own may take."""
MAXIMUM_CALLS = 2000
MAILBOX_ITEMS = 10_000
MAILBOX_BYTES = 8 << 20
STOP_SECONDS = 1.0
MAXIMUM_TEXT = 2000
"""The most characters of an error that are sent: it is in headers twice, and clients accept 8 KB of those."""
OPTIONS = (
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.max_concurrent_streams", 1000),
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.max_connection_idle_ms", 60_000),
    ("grpc.so_reuseport", 0),
)


class Server:
    """Serves `kernel.v1` at the UNIX socket `path`, in TLS with a certificate of the cluster's authority if `tls`.

    `on_ready(problem)` is called in the head's loop when it does, or can't: then `problem` says why.
    """

    def __init__(
        self, head: ServedHead, path: str, token: bytes, tls: TlsFiles | None, on_ready: Callable[[str], None]
    ) -> None:
        self._head = head
        self._path = path
        self._expected = f"Bearer {token.hex()}".encode()
        self._tls = tls
        self._on_ready = on_ready
        self._refused = RefusalLog(head.reactor, lambda reason: head.log.warning("call refused", reason=reason))
        self._answers = {service.__name__: service(head) for service in SERVICES}
        self._loop = asyncio.new_event_loop()
        self._line = HeadLine(head.reactor, self._loop)
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="kernel control plane", daemon=True)
        self._thread.start()

    def close(self, turn: Callable[[float], object]) -> None:
        """Let calls finish for a moment, then end; `turn(seconds)` goes on with the head's loop meanwhile."""
        self._in_loop(self._ended.set)
        deadline = time.monotonic() + 2 * STOP_SECONDS
        while self._thread.is_alive() and time.monotonic() < deadline:
            turn(0.01)
        turn(0.01)  # what was said last

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            self._line.post(lambda: self._on_ready(problem))
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=MAXIMUM_CALLS)
        server.add_generic_rpc_handlers((_Calls(self),))
        address = f"unix:{self._path}"
        if self._tls is None:
            server.add_insecure_port(address)
        else:
            server.add_secure_port(address, server_credentials(self._tls))
        await server.start()
        self._line.post(lambda: self._on_ready(""))
        await self._ended.wait()
        await server.stop(STOP_SECONDS)

    # -- calls -----------------------------------------------------------------------------------------------------

    def handler_of(self, path: str, metadata: Any) -> Any:
        """Return what handles a call of this path, which came with `metadata`."""
        shown = [value for key, value in metadata if key == "authorization"]
        if len(shown) != 1 or not hmac.compare_digest(self._expected, _bytes(shown[0])):
            said = "came without the session's token" if not shown else "came with a wrong token"
            self._line.post(lambda: self._refused(f"a call of {path[:100]!r} {said}"))
            return grpc.stream_stream_rpc_method_handler(partial(self._refuse, NotAllowedError(f"the call {said}")))
        method = METHODS.get(path)
        if method is None:
            known = ", ".join(METHODS)
            error = NotServedError(f"there is no method {path!r} here; there are {known}")
            return grpc.stream_stream_rpc_method_handler(partial(self._refuse, error))
        answer = getattr(self._answers[method.service], method.word)
        make = grpc.unary_stream_rpc_method_handler if method.streams else grpc.unary_unary_rpc_method_handler
        behave = self._stream if method.streams else self._answer
        return make(
            partial(behave, method, answer),
            response_serializer=method.response.SerializeToString,
        )

    async def _refuse(self, error: KernelError, requests: Any, context: Any) -> None:
        await _abort(context, error)

    async def _answer(self, method: Method, answer: Callable[[Any], Any], request: bytes, context: Any) -> Any:
        try:
            asked = _parsed(method, request)
            return await asyncio.wait_for(self._line.ask(lambda: answer(asked)), CALL_SECONDS)
        except KernelError as error:
            await _abort(context, error)
        except asyncio.TimeoutError:
            await _abort(context, GetTimeoutError(f"the head did not answer within {CALL_SECONDS:g} s"))
        except Exception as error:
            await _abort(context, self._unexpected(method, error))

    async def _stream(self, method: Method, subscribe: Callable[..., Any], request: bytes, context: Any) -> None:
        there = asyncio.Event()
        mailbox = Mailbox(MAILBOX_ITEMS, MAILBOX_BYTES, lambda: self._in_loop(there.set))
        field = method.response.DESCRIPTOR.fields[0].name
        try:
            asked = _parsed(method, request)
            close: Close = await self._line.ask(lambda: subscribe(asked, mailbox), self._line.post)
        except KernelError as error:
            await _abort(context, error)
        except Exception as error:
            await _abort(context, self._unexpected(method, error))
        try:
            await context.write(method.response())
            while await self._something(there):
                there.clear()
                while (taken := mailbox.take())[0]:
                    items, missed = taken
                    await context.write(method.response(**{field: items, "missed": missed}))
            await _abort(context, SessionEndedError(f"the session has ended: {self._head.ending or 'its head has'}"))
        finally:
            self._line.post(close)

    async def _something(self, there: asyncio.Event) -> bool:
        """Wait until there is something to send; return whether the session goes on."""
        waits = [asyncio.ensure_future(event.wait()) for event in (there, self._ended)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return not self._ended.is_set()

    def _in_loop(self, function: Callable[[], object]) -> None:
        """Call `function` in the server's loop, from whichever thread; one that has ended needs nothing."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def _unexpected(self, method: Method, error: Exception) -> KernelError:
        text = f"{method.service}.{method.name} failed in the head: {type(error).__name__}: {error}"
        self._line.post(lambda: self._head.log.error("a call failed", reason=text))
        return InternalError(text)


class _Calls(grpc.GenericRpcHandler):
    """Hands every call to the server, whatever it is called."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def service(self, handler_call_details: Any) -> Any:
        """Return what handles this call."""
        return self._server.handler_of(handler_call_details.method, handler_call_details.invocation_metadata)


def _parsed(method: Method, request: bytes) -> Any:
    """Return the request as a message. Raises ProtocolError when it can't be parsed."""
    try:
        return method.request.FromString(request)
    except DecodeError as error:
        name = method.request.DESCRIPTOR.full_name
        raise ProtocolError(
            f"the {len(request)} bytes that were sent to {method.path} can't be parsed as a {name}"
        ) from error


async def _abort(context: Any, error: KernelError) -> NoReturn:
    text = str(error)[:MAXIMUM_TEXT]
    detail = messages.Error(class_name=type(error).__name__, bases=bases_of(error), text=text)
    code = getattr(grpc.StatusCode, code_of(error))
    await context.abort(code, text, ((ERROR_KEY, detail.SerializeToString()),))
    raise AssertionError("abort raises")


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Return the credentials of a server that shows the certificate of `files`, whichever is there at the time."""

    def read() -> tuple[bytes, ...]:
        return tuple(Path(path).read_bytes() for path in files.paths())

    def configuration(read_now: tuple[bytes, ...]) -> grpc.ServerCertificateConfiguration:
        certificate, key, authority = read_now
        return grpc.ssl_server_certificate_configuration([(key, certificate)], authority)

    used = read()

    def replaced() -> grpc.ServerCertificateConfiguration | None:
        nonlocal used
        try:
            now = read()
        except OSError:
            return None  # one of them is just being replaced
        if now == used:
            return None
        used = now
        return configuration(now)

    return grpc.dynamic_ssl_server_credentials(configuration(used), replaced, require_client_authentication=True)
