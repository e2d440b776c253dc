"""The common base of the services: asking the head, ids in hexadecimal, pages."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kernel_control_grpc.errors import NotServedError
from kernel_processes.head.control_plane import ServedHead
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.nodes import ProcessRecord
from kernel_spec.errors import OptionError, SessionEndedError
from kernel_spec.ids import JobId, ProcessId

PAGE = 1000
"""How many things a page has at most."""

Thing = TypeVar("Thing")


class Service:
    """One service of `kernel.v1`, named as there; a call `FindByName` is answered by a method `find_by_name`.

    A method takes the request and returns the response, or a `Deferred` with it (or with an error). That of a stream
    takes the request and a mailbox, and returns what ends it (or a `Deferred` with that). All run in the head's loop.
    """

    def __init__(self, head: ServedHead) -> None:
        self.head = head

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return what the head answers a program that asks this. Raises NotServedError when it has no such method."""
        found = self.head.dispatcher.methods.get(method)
        if found is None:
            raise NotServedError(f"the head of this cluster does not offer {method!r}; a newer version of kernel may")
        return found(self._caller(), *arguments)

    def rows(self, method: str, *arguments: Any) -> Any:
        """Return an answer that the head gives pickled."""
        return pickle.loads(self.ask(method, *arguments))

    def _caller(self) -> ProcessRecord:
        """Return the record of a tool as the caller. It stands on the first working node, since it has none itself."""
        for node in self.head.cluster.working_nodes():
            return ProcessRecord(ProcessId(b""), "tool", 0, "", JobId(b""), "", {}, node)
        raise SessionEndedError("the head has just been started, and no node has joined it yet; ask again in a moment")


def message_of(packed: Deferred, function: Callable[[Any], Any]) -> Deferred:
    """Return what `function` makes of an answer that will be there later, pickled; what it raises is the answer too."""
    deferred = Deferred()

    def there(answer: Any) -> None:
        try:
            deferred.set(function(pickle.loads(answer)))
        except Exception as error:
            deferred.set(error)

    packed.when_done(there)
    return deferred


def parse_id(text: str, what: str) -> bytes:
    """Return an id that is written in hexadecimal; `what` has it. Raises OptionError for other text."""
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise OptionError(
            f"{text!r} can't be the id of {what}: expected hexadecimal digits, two for each byte; List shows the ids"
        ) from error


def page_of(things: Sequence[Thing], key: Callable[[Thing], str], request: Any) -> tuple[list[Thing], str]:
    """Return the page of `things` that a request asks for, in the order of `key`, and where the next one begins."""
    size = min(request.page_size or PAGE, PAGE)
    after = sorted((thing for thing in things if key(thing) > request.page_token), key=key)
    page = after[:size]
    return page, key(page[-1]) if len(after) > size else ""
