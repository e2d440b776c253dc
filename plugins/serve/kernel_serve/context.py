"""What user code can ask about where it runs: the request that is being answered, and the replica that it is in.

The replica calls `enter_replica` when it begins and when its rank changes, and `enter_request` for each request;
everything that the request starts (tasks, threads begun with its context) sees it. A replica whose requests carry a
list `at_end` promises to call `end_request` when the request has been answered: what was lent to the request (a model,
say) is given back then.
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
    """The request that is being answered. `route` is the prefix of the endpoint by which it came, if it did."""

    request_id: str = ""
    route: str = ""
    application: str = ""
    deployment: str = ""
    multiplexed_model_id: str = ""
    at_end: list[Callable[[], None]] | None = None
    """Called when the request has been answered; None where nobody would call them."""


class ReplicaRank(int):
    """The rank of a replica: a number, which is its own attribute `rank`, too."""

    @property
    def rank(self) -> int:
        """The number."""
        return int(self)

    def __getattr__(self, name: str) -> Any:
        """Say why there is no rank of nodes, and none on a node."""
        why = _NO_NODES if name in ("node_rank", "local_rank") else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{why}")


_NO_NODES = (
    ": a replica is given its rank before its node is known; which devices of its node are its own "
    "kernel.get_runtime_context().get_accelerator_ids() says"
)


@dataclass(frozen=True, slots=True)
class ReplicaContext:
    """The replica in which this runs, and the user's object in it, at the moment at which it was asked for."""

    app_name: str
    deployment: str
    replica_id: str
    servable_object: Any = None
    rank: ReplicaRank = field(default_factory=lambda: ReplicaRank(0))
    """Which of the deployment's replicas this one is, from 0 up."""
    world_size: int = 1
    """How many replicas the deployment is to have."""

    @property
    def replica_tag(self) -> str:
        """The id of the replica, by its older name."""
        return self.replica_id


_OUTSIDE = RequestContext()

_request: ContextVar[RequestContext] = ContextVar("kernel_serve_request", default=_OUTSIDE)
_batch: ContextVar[tuple[RequestContext, ...]] = ContextVar("kernel_serve_batch", default=())
_web: ContextVar[bool] = ContextVar("kernel_serve_web", default=False)
_replica: ContextVar[ReplicaContext | None] = ContextVar("kernel_serve_replica", default=None)
_replica_of_process: ReplicaContext | None = None


def enter_replica(replica: ReplicaContext) -> None:
    """Make `replica` the one that is seen in this process, from now on also by what runs already."""
    global _replica_of_process
    _replica_of_process = replica


def enter_here(replica: ReplicaContext) -> None:
    """Make `replica` the one that is seen in this context alone: others may be in the same process."""
    _replica.set(replica)


def enter_request(request: RequestContext) -> Token[RequestContext]:
    """Make `request` the one that is seen in this context; return what `leave_request` takes."""
    return _request.set(request)


def leave_request(token: Token[RequestContext]) -> None:
    """Undo `enter_request`, where the context goes on."""
    _request.reset(token)


def end_request(request: RequestContext) -> None:
    """Give back what was lent to `request`. To be called once it has been answered, however it ended."""
    callbacks, request.at_end = request.at_end, None
    for callback in callbacks or ():
        callback()


def enter_batch(requests: tuple[RequestContext, ...]) -> None:
    """Make `requests` those that are answered together in this context."""
    _batch.set(requests)


def enter_web(web: bool) -> None:
    """Say whether what is answered in this context came by HTTP."""
    _web.set(web)


def current_request() -> RequestContext:
    """Return the request that is being answered here; outside of any, one whose fields are empty."""
    return _request.get()


def batch_requests() -> tuple[RequestContext, ...]:
    """Return the requests that the running batch answers, in the order of its arguments; outside of a batch, none."""
    return _batch.get()


def get_multiplexed_model_id() -> str:
    """Return the id of the model that the request asks for; "" if it asks for none."""
    return _request.get().multiplexed_model_id


def get_replica_context() -> ReplicaContext:
    """Return the replica in which this runs. Raises NotServingError elsewhere."""
    replica = _replica.get() or _replica_of_process
    if replica is None:
        raise NotServingError(
            "get_replica_context() was called outside of a replica: call it in a deployment's constructor or methods, "
            "after serve.run has started it"
        )
    return replica


def replica_of_process() -> ReplicaContext | None:
    """Return the replica that this process is, None elsewhere."""
    return _replica_of_process


def __getattr__(name: str) -> Any:
    """Compute `batch_size` (how many requests the running batch answers; 1 outside of a batch) and `web`.

    `web` says, in backends, whether the request came by HTTP, and not by a handle.
    """
    if name == "batch_size":
        return len(_batch.get()) or 1
    if name == "web":
        return _web.get()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
