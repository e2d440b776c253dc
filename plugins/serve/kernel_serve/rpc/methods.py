"""Find the methods of users' services by the `add_..._to_server` functions that gRPC's compiler generates."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from kernel_serve.errors import DeploymentError
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RPCMethod:
    """Describes a method of a service: `path` is `/package.Service/Name`.

    Its messages are bytes, except for `decode` and `encode`.
    """

    path: str
    streams_in: bool
    streams_out: bool
    decode: Callable[[bytes], Any]
    """Parses the message of a request."""
    encode: Callable[[Any], bytes]
    """Serializes the message of a response."""
    adder: str
    """The import path of the function by which it was found."""
    repeatable: bool = False
    """Whether a call may be carried out twice, as its `idempotency_level` in the service's definition says."""

    @property
    def service(self) -> str:
        """The full name of its service."""
        return self.path.split("/")[1]

    @property
    def name(self) -> str:
        """Its own name, which is the name of the deployment's method."""
        return self.path.rpartition("/")[2]


@cache
def methods_of(adder: str, directory: str | None = None) -> dict[str, RPCMethod]:
    """Return the methods of the service that `adder` adds, by path.

    `adder` is the import path of a function: `module:function` or `module.function`, which may also be in `directory`.
    Raises DeploymentError if there is no such function, or it adds no service.
    """
    if directory is not None and directory not in sys.path:
        sys.path.insert(0, directory)
    recording = _Server()
    servicer = _Servicer()
    try:
        _imported(adder)(servicer, recording)
    except DeploymentError:
        raise
    except Exception as error:
        raise DeploymentError(
            f"{adder} is not an add_..._to_server function that gRPC's compiler generates: {error!r}"
        ) from error
    found = {}
    for generic in recording.generic:
        service = generic.service_name()
        for name in servicer.names:
            path = f"/{service}/{name}"
            handler = generic.service(_Details(path))
            if handler is not None:
                found[path] = RPCMethod(
                    path,
                    handler.request_streaming,
                    handler.response_streaming,
                    handler.request_deserializer or bytes,
                    handler.response_serializer or bytes,
                    adder,
                    _is_repeatable(service, name),
                )
    if not found:
        raise DeploymentError(f"{adder} adds no methods to a server: name an add_..._to_server function")
    return found


def all_methods(adders: Iterable[str], directory: str | None = None) -> dict[str, RPCMethod]:
    """Return the methods of all services that `adders` add, by path. Raises DeploymentError as `methods_of` does."""
    return {path: method for adder in adders for path, method in methods_of(adder, directory).items()}


def _is_repeatable(service: str, name: str) -> bool:
    try:
        from google.protobuf import descriptor_pool

        found = descriptor_pool.Default().FindMethodByName(f"{service}.{name}")
    except (ImportError, KeyError):  # a service need not be one of protobuf's
        return False
    return bool(found.GetOptions().idempotency_level)


def _imported(path: str) -> Callable[..., Any]:
    module, colon, name = path.partition(":")
    if not colon:
        module, _, name = path.rpartition(".")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise DeploymentError(
            f"the gRPC servicer function {path!r} can't be imported ({error}): it must be 'module:function', in a "
            "module that proxies and replicas can import; app_dir of grpc_options is the directory where they look, too"
        ) from error
    if not callable(function):
        raise DeploymentError(f"the gRPC servicer function {path!r} is a {type(function).__name__}, not a function")
    return function  # type: ignore[no-any-return]


class _Servicer:
    """Has every method that is asked for, and records which were."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.names.append(name)
        return lambda *arguments: None


class _Server:
    """Takes handlers as a gRPC server does, and keeps them."""

    def __init__(self) -> None:
        self.generic: list[Any] = []

    def add_generic_rpc_handlers(self, handlers: Iterable[Any]) -> None:
        self.generic += handlers

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        """Do nothing: these are the same handlers once more, for servers that look methods up by themselves."""


@dataclass(frozen=True, slots=True)
class _Details:
    method: str
    invocation_metadata: tuple[tuple[str, str], ...] = ()
