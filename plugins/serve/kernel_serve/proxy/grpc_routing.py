"""Route gRPC calls: from their metadata to a deployment, and to shadows."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kernel_serve.proxy.grpc_targets import APPLICATION, GRPCTarget, Targets
from kernel_serve.routing.dispatcher import Dispatcher
from kernel_serve.rpc.methods import RPCMethod
from kernel_serve.settings import GRPCOptions
from kernel_serve.values import Endpoint
from kernel_serve.wire.link import Exchange

REQUEST_ID = "request_id"
"""The key of the request's id in the metadata, and in the trailing metadata of the answer."""
MODEL = "multiplexed_model_id"
"""The key of the multiplexed model's id in the metadata."""
LARGEST_COPY = 256 << 10
"""The largest message in bytes that is copied to shadows."""


class GRPCRouter(Protocol):
    """Offers the part of a router that routing needs."""

    endpoints: tuple[Endpoint, ...]

    def dispatcher(self, key: str) -> Dispatcher:
        """Return the dispatcher for a deployment."""


Shadow = Callable[[str, dict[str, Any], bytes, "float | None"], None]
"""Sends a copy: takes the key of a deployment, the call's meta and message, and its time limit in seconds."""


class Begun(NamedTuple):
    """Holds a call before it is sent. Times are in seconds from now.

    `until_answer` is the limit for the begin of its answer; `deadline`, the client's, is the limit for its end.
    """

    target: str
    shadows: Any
    meta: dict[str, Any]
    until_answer: float | None
    deadline: float | None


class GRPCRouting:
    """Routes the calls of one server. `shadow` sends a copy of a call to a deployment."""

    def __init__(self, router: GRPCRouter, options: GRPCOptions, shadow: Shadow) -> None:
        self._router = router
        self._options = options
        self._shadow = shadow
        self._targets = Targets()
        self._new_id = _ids()

    def begin(self, method: RPCMethod, context: Any) -> Begun:
        """Return where a call goes, the meta with which it is opened, and its time limits."""
        metadata = tuple((key, value) for key, value in context.invocation_metadata() or ())
        named = dict(metadata)
        id = named.get(REQUEST_ID) or self._new_id()
        context.set_trailing_metadata(((REQUEST_ID, id),))
        seconds = context.time_remaining()
        meta: dict[str, Any] = {
            "type": "grpc",
            "id": id,
            "method": method.path,
            "adder": method.adder,
            "metadata": metadata,
            "peer": context.peer(),
            "seconds": seconds,
        }
        if self._options.app_dir is not None:
            meta["app_dir"] = self._options.app_dir
        if model := named.get(MODEL):
            meta["model"] = model
        found = self.find(meta)
        limit = self._router.dispatcher(found.target).request_timeout
        if limit is None:
            limit = self._options.request_timeout_s
        limits = [each for each in (seconds, limit) if each is not None]
        return Begun(found.target, found.shadows, meta, min(limits, default=None), seconds)

    def find(self, meta: dict[str, Any]) -> GRPCTarget:
        """Return where a call goes now. Raises NotServingError for an unknown application."""
        self._targets.learn(self._router.endpoints)
        return self._targets.find(dict(meta["metadata"]).get(APPLICATION, ""), meta["metadata"], meta["peer"])

    async def open(self, begun: Begun, body: bytes, end: bool, repeatable: bool = False) -> Exchange:
        """Send a call to a replica; return its exchange."""
        dispatcher = self._router.dispatcher(begun.target)
        return await dispatcher.open(begun.meta, body, end, begun.until_answer, repeatable)

    def copy(self, method: RPCMethod, begun: Begun, message: bytes) -> None:
        """Send copies of a call to shadows. Calls with streams are not copied: they may never end."""
        if begun.shadows and not method.streams_out and len(message) <= LARGEST_COPY:
            for key in begun.shadows:
                self._shadow(key, begun.meta, message, begun.until_answer)


def _ids() -> Callable[[], str]:
    """Return a function that returns a new id each time."""
    beginning = secrets.token_hex(8)
    count = 0

    def new() -> str:
        nonlocal count
        count += 1
        return f"{beginning}-{count:08x}"

    return new
