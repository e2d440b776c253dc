"""The serializer contract: values to bytes and back.

A serializer is called from any thread of any process, on the path of every task: it must be re-entrant and keep
no state between calls. What one process serialized, another of the same session can read, so a serializer's
format may not depend on the process. It may raise anything; the kernel turns that into a `SerializationError`
that names the path to the culprit.

The kernel's default serializer is pickle 5 with out-of-band buffers: numpy arrays, and whatever else offers
buffers, cross processes without a copy. A plugin has two ways to say something else, and may use both:

* `reducers()`: for values of some types, wherever they are nested, return what `__reduce_ex__(5)` returns.
  Wrap large buffers in `pickle.PickleBuffer` and they are shared without a copy.
* `encode`/`decode`: take over the finished payload (compress it, encrypt it, or replace it altogether).

On conflict: named (an ordered list: `init(serializer="arrow,zlib")`): reducers of the first that knows the type;
payloads pass through every `encode` in order and back through `decode` in reverse. On absence the default alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, runtime_checkable

from kernel_spec.dataclass import dataclass

Buffer = bytes | bytearray | memoryview


@dataclass(slots=True)
class Payload:
    """A serialized value: a head, and large buffers that need not be copied into it."""

    head: bytes
    buffers: list[Buffer] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes in all."""
        return len(self.head) + sum(memoryview(b).nbytes for b in self.buffers)


Reducer = Callable[[Any], tuple[Any, ...]]


@runtime_checkable
class Serializer(Protocol):
    """See the module's text. `name` is what users select and what a payload is marked with: a Python identifier of less
    than 100 characters."""

    name: str

    def reducers(self) -> Mapping[str, Reducer]:
        """Return full type name (`"pyarrow.lib.Table"`) to reducer. Names, so that nothing heavy is imported."""
        ...

    def encode(self, payload: Payload) -> Payload:
        """Return a new `Payload`, with a head of bytes, to store and send instead of `payload`.

        Return `payload` itself to leave it alone; never change it.
        """
        ...

    def decode(self, head: bytes, buffers: Sequence[Buffer]) -> Payload:
        """Undo `encode`; `buffers` may be read-only memory. Called only for payloads that `encode` changed.

        Raise any exception for bytes that `encode` can't have made. If such bytes decode to an invalid payload, the
        kernel refuses it and names the serializer.
        """
        ...


class SerializerBase:
    """A serializer that changes nothing: inherit it and override what you want to be different.

    The kernel does not call an `encode` that is not overridden, so a serializer that only reduces costs nothing
    for values of other types.
    """

    name = ""

    def reducers(self) -> Mapping[str, Reducer]:
        """Reduce nothing."""
        return {}

    def encode(self, payload: Payload) -> Payload:
        """Leave the payload alone."""
        return payload

    def decode(self, head: bytes, buffers: Sequence[Buffer]) -> Payload:
        """Return the payload unchanged."""
        return Payload(head, list(buffers))
