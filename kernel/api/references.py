"""Sending references by other means than calls, such as a program's own sockets."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from kernel.runtime.current import get_runtime
from kernel.runtime.in_progress import Capture

if TYPE_CHECKING:
    from kernel.runtime.object_ref import ObjectRef


class _Collection(Capture):
    """Collects references that are pickled. As receivers soon ask this process for them, it then answers promptly."""

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self.captured:
            get_runtime().answer_promptly()


def collect_references() -> AbstractContextManager[list[ObjectRef]]:
    """Collect the references that this thread pickles in a block: `with collect_references() as references:`.

    A reference that is pickled outside of kernel's calls is otherwise kept for the whole session, because kernel can't
    know when the receiver has it. The caller must keep the collected references until the receiver has got their
    values, or will not ask for them. References inside of a value are counted as usual, so it is simplest to `put`
    everything into one object, and to send only the reference to that.
    """
    return _Collection()
