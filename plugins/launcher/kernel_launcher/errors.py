"""The error of a machine that is logged in to."""

from __future__ import annotations

from kernel_spec.errors import FaultError


class MachineError(FaultError):
    """A machine can't be reached, or something that was to be done there has failed."""
