"""Tell user code where it runs: the request that is being answered, and the replica.

The replica calls `enter_replica` when it begins and when its rank changes, and `enter_request` for each request;
everything that the request starts (tasks, threads begun with its context) sees it. A replica that gives its requests a
list `at_end` calls `end_request` when a request has been answered: what was lent to the request, such as a model, is
given back then.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import field
from typing import Any

from kernel_serve.errors import NotServingError
from kernel_spec.dataclass import dataclass


@dataclass(slots=True, eq=False)
class RequestContext:
    """The request that is being answered.

    `route` is the prefix of the endpoint by which it came, "" if it came otherwise.
    """

    request_id: str = ""
    route: str = ""
    application: str = ""
    deployment: str = ""
    multiplexed_model_id: str = ""
    at_end: list[Callable[[], None]] | None = None
    """Functions to call when the request has been answered; None where they would not be called."""


class ReplicaRank(int):
    """The rank of a replica: a number, which also is its own attribute `rank`."""

    @property
    def rank(self) -> int:
        """The number."""
        return int(self)

    def __getattr__(self, name: str) -> Any:
        """Raise an AttributeError that says that nodes have no ranks, and that replicas have none within their node."""
        why = _NO_NODES if name in ("node_rank", "local_rank") else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{why}")


_NO_NODES = (
    ": a replica is given its rank before its node is known; which devices of its node are its own "
    "kernel.get_runtime_context().get_accelerator_ids() says"
)


@dataclass(frozen=True, slots=True)
class ReplicaContext:
    """The replica in which this runs, and the user's object in it, as they were when they were asked for."""

    app_name: str
    deployment: str
    replica_id: str
    servable_object: Any = None
    rank: ReplicaRank = field(default_factory=lambda: ReplicaRank(0))
    """Its rank among the deployment's replicas, from 0 up."""
    world_size: int = 1
    """The number of replicas that the deployment should have."""

    @property
    def replica_tag(self) -> str:
        """The id of the replica, by an older name."""
        return self.replica_id


_OUTSIDE = RequestContext()

_request: ContextVar[RequestContext] = ContextVar("kernel_serve_request", default=_OUTSIDE)
_batch: ContextVar[tuple[RequestContext, ...]] = ContextVar("kernel_serve_batch", default=())
_web: ContextVar[bool] = ContextVar("kernel_serve_web", default=False)
_replica: ContextVar[ReplicaContext | None] = ContextVar("kernel_serve_replica", default=None)
_replica_of_process: ReplicaContext | None = None


def enter_replica(replica: ReplicaContext) -> None:
    """Make `replica` the one that this process sees, running tasks and threads included."""
    global _replica_of_process
    _replica_of_process = replica


def enter_here(replica: ReplicaContext) -> None:
    """Make `replica` the one that this context alone sees: other contexts of the process may be in other replicas."""
    _replica.set(replica)


def enter_request(request: RequestContext) -> Token[RequestContext]:
    """Make `request` the one that this context sees; return the argument for `leave_request`."""
    return _request.set(request)


def leave_request(token: Token[RequestContext]) -> None:
    """Undo `enter_request`, where the context goes on."""
    _request.reset(token)


def end_request(request: RequestContext) -> None:
    """Give back what was lent to `request`. Call it once the request has been answered, however that ended."""
    callbacks, request.at_end = request.at_end, None
    for callback in callbacks or ():
        callback()


def enter_batch(requests: tuple[RequestContext, ...]) -> None:
    """Make `requests` those that are answered together in this context."""
    _batch.set(requests)


def enter_web(web: bool) -> None:
    """Set whether the request of this context came by HTTP."""
    _web.set(web)


def current_request() -> RequestContext:
    """Return the request that is being answered here; outside of a request, one with empty fields."""
    return _request.get()


def batch_requests() -> tuple[RequestContext, ...]:
    """Return the requests that the running batch answers, in the order of its arguments; outside of a batch, ()."""
    return _batch.get()


def get_multiplexed_model_id() -> str:
    """Return the id of the model that the request asks for; "" if it asks for none."""
    return _request.get().multiplexed_model_id


def get_replica_context() -> ReplicaContext:
    """Return the replica in which this runs. Raises NotServingError outside of a replica."""
    replica = _replica.get() or _replica_of_process
    if replica is None:
        raise NotServingError(
            "get_replica_context() was called outside of a replica: call it in a deployment's constructor or methods, "
            "after serve.run has started it"
        )
    return replica


def replica_of_process() -> ReplicaContext | None:
    """Return the replica that this process is; None if it is not a replica."""
    return _replica_of_process


def __getattr__(name: str) -> Any:
    """Compute `batch_size` (how many requests the running batch answers; 1 outside of a batch) and `web`.

    `web` says, in backends, whether the request came by HTTP rather than by a handle.
    """
    if name == "batch_size":
        return len(_batch.get()) or 1
    if name == "web":
        return _web.get()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
