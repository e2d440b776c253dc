"""Name, in errors of unpickling, the value that could not be rebuilt."""

from __future__ import annotations

from contextlib import suppress

from kernel.runtime.critical_sections import is_from_outside
from kernel_spec.errors import KernelError


def naming(error: Exception, what: str) -> Exception:
    """Return what the unpickling of `what` raised, with a note that says so; our own errors say it themselves."""
    if not isinstance(error, KernelError) and not is_from_outside(error):
        notes = [*getattr(error, "__notes__", ()), f"  raised by unpickling {what}"]
        with suppress(AttributeError, TypeError):  # The class may take no attributes.
            error.__notes__ = notes  # type: ignore[attr-defined]
    return error
