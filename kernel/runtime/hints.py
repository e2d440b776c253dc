"""Hints for errors of Python and numpy that come from using a reference as a value, or writing to a shared array.

Not every such use of a reference can be refused with a message of the kernel (see `not_a_value`), and no write to an
array whose memory is shared. So a hint is added to the message where the error is shown.
"""

from __future__ import annotations

import re

from kernel.runtime.not_a_value import REMEDY
from kernel_spec.errors import KernelError

_READ_ONLY = "  arrays that were sent are shared by all who have them, and can't be changed: use array.copy()"
_REFERENCE = "  " + REMEDY
_STREAM = "  a stream yields references, each as soon as there is an item: for ref in stream: value = kernel.get(ref)"
_OURS = re.compile(r"\bObjectRef(Generator)?\b")


def hint_of(error: BaseException, message: str) -> str | None:
    """Return a hint for `error`, whose text is `message`, or None."""
    if isinstance(error, KernelError) or not isinstance(error, (TypeError, ValueError, AttributeError)):
        return None
    if isinstance(error, ValueError) and "read-only" in message:  # numpy's words
        return _READ_ONLY
    found = _OURS.search(message)
    if found is None:
        return None
    return _STREAM if found[1] else _REFERENCE
