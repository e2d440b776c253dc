"""A client of the control plane for Python programs. Importing this loads grpc.

with ControlPlane("head.example:6380", token) as cluster:
    for node in cluster.nodes.each():
        print(node.host, dict(node.total))
    for response in cluster.events.watch(kinds=["actor"]):
        ...

Services are attributes, `find_by_name` is the call `FindByName`, and arguments are the fields of its request. What the
head raises is raised here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from kernel_control_grpc.errors import error_named
from kernel_control_grpc.protocol import ERROR_KEY, METHODS, Method, in_python, messages
from kernel_spec.errors import FaultError, GetTimeoutError, KernelError, OptionError, SessionEndedError
from kernel_spec.tls_files import NODE_NAME, TlsFiles

CALL_SECONDS = 10.0


class ControlPlane:
    """The control plane of the cluster whose head is reached at `address` ("HOST:PORT"). A context manager.

    `token` is the session's, in bytes. With `tls`, everything is in TLS: `server_name` is a name that the head's
    certificate has; those of `kernel certificates` have this one. `seconds` is how long a call may take, unless it says
    otherwise itself.
    """

    nodes: ServiceClient
    actors: ServiceClient
    jobs: ServiceClient
    placement_groups: ServiceClient
    key_value: ServiceClient
    pub_sub: ServiceClient
    events: ServiceClient
    session: ServiceClient

    def __init__(
        self,
        address: str,
        token: bytes,
        tls: TlsFiles | None = None,
        server_name: str = NODE_NAME,
        seconds: float = CALL_SECONDS,
    ) -> None:
        options: list[tuple[str, Any]] = [("grpc.max_receive_message_length", -1)]
        if tls is None:
            self._channel = grpc.insecure_channel(address, options)
        else:
            options.append(("grpc.ssl_target_name_override", server_name))
            self._channel = grpc.secure_channel(address, _credentials(tls), options)
        metadata = (("authorization", f"Bearer {token.hex()}"),)
        for service in {method.service for method in METHODS.values()}:
            methods = [method for method in METHODS.values() if method.service == service]
            setattr(self, in_python(service), ServiceClient(self._channel, methods, metadata, seconds))

    def close(self) -> None:
        """End the connection, and all streams."""
        self._channel.close()

    def __enter__(self) -> ControlPlane:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ServiceClient:
    """The calls of one service, each a method with the fields of its request and `seconds`, its deadline.

    A stream returns an iterator of responses with a `cancel()`. The first, which is empty, has been read, so nothing is
    missed from then on. It goes on for ever, unless `seconds` are given.
    """

    def __init__(self, channel: Any, methods: list[Method], metadata: Any, seconds: float) -> None:
        self._channel = channel
        self._metadata = metadata
        self._seconds = seconds
        self._methods = {method.word: method for method in methods}

    def __getattr__(self, name: str) -> Any:
        method = self.__dict__.get("_methods", {}).get(name)
        if method is None:
            raise AttributeError(f"the service has no call {name!r}; it has {', '.join(self.__dict__['_methods'])}")

        def call(seconds: float | None = None, **fields: Any) -> Any:
            return self._call(method, seconds, fields)

        return call

    def each(self, **fields: Any) -> Iterator[Any]:
        """Yield everything that `list` (or `keys`) has, page by page."""
        method = self._methods.get("list") or self._methods["keys"]
        things, token = method.response.DESCRIPTOR.fields[0].name, ""
        while True:
            page = self._call(method, None, {**fields, "page_token": token})
            yield from getattr(page, things)
            token = page.next_page_token
            if not token:
                return

    def _call(self, method: Method, seconds: float | None, fields: dict[str, Any]) -> Any:
        try:
            request = method.request(**fields)
        except (TypeError, ValueError) as error:
            known = ", ".join(field.name for field in method.request.DESCRIPTOR.fields)
            raise OptionError(
                f"{method.service}.{method.name} got wrong arguments: {error}; its fields are {known or 'none'}"
            ) from error
        kind = self._channel.unary_stream if method.streams else self._channel.unary_unary
        stub = kind(method.path, method.request.SerializeToString, method.response.FromString)
        try:
            if method.streams:
                return Stream(stub(request, timeout=seconds, metadata=self._metadata), seconds or self._seconds)
            return stub(request, timeout=seconds or self._seconds, metadata=self._metadata)
        except grpc.RpcError as error:
            raise error_of(error) from None


class Stream(Iterator[Any]):
    """The responses of a stream, as they come. It ends when it is cancelled."""

    def __init__(self, responses: Any, seconds: float) -> None:
        """Wait up to `seconds` for the first response. Raises GetTimeoutError when there is none."""
        self._responses = responses
        impatience = threading.Timer(seconds, responses.cancel)
        impatience.daemon = True
        impatience.start()
        try:
            next(responses)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.CANCELLED:
                raise GetTimeoutError(f"the head did not begin to answer within {seconds:g} s") from None
            raise error_of(error) from None
        finally:
            impatience.cancel()

    def __next__(self) -> Any:
        """Return the next response. Raises what ended the stream."""
        try:
            return next(self._responses)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.CANCELLED:
                raise StopIteration from None
            raise error_of(error) from None

    def cancel(self) -> None:
        """End it, from whichever thread."""
        self._responses.cancel()


def error_of(error: Any) -> KernelError:
    """Return the kernel's own error for one of gRPC's."""
    for key, value in error.trailing_metadata() or ():
        if key == ERROR_KEY:
            said = messages.Error.FromString(value)
            return error_named(said.class_name, list(said.bases), said.text)
    code, text = error.code(), error.details()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return GetTimeoutError(f"the head did not answer in time: {text}")
    if code is grpc.StatusCode.UNAVAILABLE:
        return SessionEndedError(f"the head can't be reached: {text}; check its address, the token and the TLS files")
    return FaultError(f"the control plane failed with {code.name}: {text}")


def _credentials(files: TlsFiles) -> Any:
    try:
        certificate, key, authority = (Path(path).read_bytes() for path in files.paths())
    except OSError as error:
        raise OptionError(f"the TLS file {error.filename} can't be read: {error.strerror}") from error
    return grpc.ssl_channel_credentials(authority, key, certificate)
