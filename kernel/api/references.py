"""References that travel by a program's own ways."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from kernel.runtime.current import get_runtime
from kernel.runtime.in_progress import Capture

if TYPE_CHECKING:
    from kernel.runtime.object_ref import ObjectRef


class _Collection(Capture):
    """Collects references that are pickled. Others will soon ask this process for them, which then answers promptly."""

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self.captured:
            get_runtime().answer_promptly()


def collect_references() -> AbstractContextManager[list[ObjectRef]]:
    """Collect the references that this thread pickles meanwhile, as in `with collect_references() as references:`.

    A reference that is pickled by other means than kernel's calls is kept for ever, for nobody can know when the other
    side has it. Whoever collects it must keep it instead, until that side has got its value, or will never ask. Inside
    of that value references are counted as always: so send one reference, to what `put` has made of all the rest.
    """
    return _Collection()
