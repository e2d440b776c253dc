"""The reference stream that a generator task or method returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel.api.parameters import check_timeout
from kernel.runtime.current import get_runtime
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.shown_tracebacks import for_users
from kernel.runtime.streams import ObjectStream, abandoned


class ObjectRefGenerator:
    """Yields the references of a generator's items, in order, each as soon as its item was yielded.

    Iterate over it with `for` or `async for`; `wait` and `cancel` take it, too. An error in the generator is raised by
    `get` of the last reference. When this object is garbage collected before its end, the generator is closed in its
    worker, unless `completed()` was called.
    """

    def __init__(self, stream: ObjectStream) -> None:
        self._stream = stream
        self._completion_wanted = False

    def __iter__(self) -> ObjectRefGenerator:
        return self

    def __next__(self) -> ObjectRef:
        __tracebackhide__ = True
        return self.next(None)

    def next(self, timeout: float | None = None) -> ObjectRef:
        """Wait for the next reference and return it.

        Raises GetTimeoutError after `timeout` seconds (None: wait without limit), and StopIteration at the end.
        """
        __tracebackhide__ = True
        if timeout is not None:
            check_timeout(timeout)
        try:
            return get_runtime().next_item(self._stream, timeout)
        except StopIteration:
            raise
        except BaseException as error:
            raise for_users(error)

    def __aiter__(self) -> ObjectRefGenerator:
        return self

    async def __anext__(self) -> ObjectRef:
        import asyncio

        runtime = get_runtime()
        loop = asyncio.get_running_loop()
        while True:
            ref, ended = runtime.take_item(self._stream)
            if ref is not None:
                return ref
            if ended:
                raise StopAsyncIteration
            await runtime.item_arrival(self._stream, loop)

    def completed(self) -> ObjectRef:
        """Return a reference that is ready when the generator has ended."""
        self._completion_wanted = True
        assert self._stream.completed is not None
        return self._stream.completed

    def is_finished(self) -> bool:
        """Return whether the generator has ended and every item was taken."""
        return self._stream.finished and not self._stream.items

    def close(self) -> None:
        """Stop taking items, and close the generator in its worker."""
        get_runtime().close_stream(self._stream)

    def __del__(self, abandon: Callable[[ObjectStream], None] = abandoned.append) -> None:
        if not self._stream.finished and not self._completion_wanted:
            abandon(self._stream)  # a default argument, because globals may be gone at the end of a program

    def __repr__(self) -> str:
        return f"ObjectRefGenerator({self._stream.task.hex()})"

    def __reduce__(self) -> Any:
        raise TypeError(
            "an ObjectRefGenerator can't leave the process that made the call; pass the references it yields instead"
        )
