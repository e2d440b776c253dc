"""Let a part of the agent, or of its network, be a client of its node's store: it sends requests with a callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel_spec import store as contract
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.networks import NodeStore

Then = Callable[[Any, "Exception | None"], None]
"""Called with the result of the request, or with None and an error."""


class StoreLink:
    """Sends requests to the store, where `client` is its id. Called from the loop; callbacks may come at once."""

    def __init__(self, store: NodeStore, client: ProcessId) -> None:
        self._store = store
        self._client = client
        self._requests: dict[int, Then] = {}
        self._creating: dict[ObjectId, int] = {}
        self._numbers = 0
        store.serve_locally(client, self._answered)

    def pin(self, object: ObjectId, then: Then) -> None:
        """Have the object in memory and keep it there: `then((location, size), None)`; see `contract.Pin`."""
        self._store.handle(contract.Pin(self._client, self._expect(then), object))

    def unpin(self, object: ObjectId) -> None:
        """Undo one `pin`."""
        self._store.handle(contract.Unpin(self._client, object))

    def create(self, object: ObjectId, size: int, owner: ProcessId, then: Then) -> None:
        """Find room for the object, weak until `keep`: `then(location, None)`; see `contract.Create`."""

        def answered(location: contract.Location, error: Exception | None) -> None:
            if error is not None:
                self._creating.pop(object, None)
            then(location, error)

        request = self._creating[object] = self._expect(answered)
        self._store.create(contract.Create(self._client, request, object, size, owner, weak=True))

    def seal(self, object: ObjectId, pin: bool) -> None:
        """The object is complete; with `pin` it stays in memory until `unpin`."""
        self._creating.pop(object, None)
        self._store.seal(contract.Seal(self._client, object, pin))

    def keep(self, object: ObjectId) -> None:
        """The object is not to be dropped when space is short."""
        self._store.keep(object)

    def abort(self, object: ObjectId) -> None:
        """Give up an object that is being created; what was asked about it is not answered any more."""
        request = self._creating.pop(object, None)
        if request is not None:
            self._requests.pop(request, None)
        self._store.handle(contract.Abort(self._client, object))

    def view(self, location: contract.Location, size: int) -> memoryview:
        """Return the memory of an object that is pinned or being created."""
        return self._store.server.view(location, size)

    def _expect(self, then: Then) -> int:
        self._numbers += 1
        self._requests[self._numbers] = then
        return self._numbers

    def _answered(self, request: int, answer: Any, error: Exception | None) -> None:
        then = self._requests.pop(request, None)
        if then is not None:
            then(answer, error)
