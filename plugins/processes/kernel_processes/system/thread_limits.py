"""Limit the threads of numerical libraries in a worker to the number of CPUs of its lease, at least one.

A library reads its variable when it is loaded. A variable that the user has set, in the environment of the program or
of a node or in a runtime_env, is not changed; if `OMP_NUM_THREADS` is set, none of them is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, MutableMapping
from contextlib import suppress

from kernel_spec.resources import UNIT

OPENMP = "OMP_NUM_THREADS"
VARIABLES = (OPENMP, "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")

_ours: list[str] = []
"""Names of variables that `begin` has set in this process, or in the one that it was forked from."""


def begin(environment: MutableMapping[str, str] = os.environ) -> None:
    """Limit libraries that are loaded before there is a lease to one thread each. Called in the template."""
    if OPENMP not in environment:
        environment[OPENMP] = "1"
        _ours.append(OPENMP)


class ThreadLimits:
    """Sets the limits of one worker. Its constructor removes the variables that `begin` has set.

    `own` are the names of variables that the program or the runtime_env sets; these are kept.
    """

    def __init__(self, own: Container[str], environment: MutableMapping[str, str] = os.environ) -> None:
        self._environment = environment
        for name in _ours:
            if name not in own:
                environment.pop(name, None)
        self._names = [name for name in VARIABLES if name not in environment] if OPENMP not in environment else []
        self._threads = 0

    def apply(self, cpu_units: int) -> None:
        """Set the limits for a lease of `cpu_units` of CPU (see `kernel_spec.resources.UNIT`)."""
        threads = max(1, cpu_units // UNIT)
        if not self._names or threads == self._threads:
            return
        self._threads = threads
        self._environment.update(dict.fromkeys(self._names, str(threads)))
        torch = sys.modules.get("torch")
        if torch is not None:
            with suppress(Exception):  # Torch may be partly imported, or the module another one of that name.
                torch.set_num_threads(threads)
