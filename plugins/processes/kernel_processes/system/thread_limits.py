"""Limit the threads of numerical libraries in a worker: as many as its lease has CPUs, at least one.

A library reads its variable when it is loaded. A variable that the user has set stays as it is, in the environment of
the program, of a node, or in a runtime_env; `OMP_NUM_THREADS` speaks for all of them.
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
"""Variables that `begin` has set in this process, or in the one that it was forked from."""


def begin(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have one thread for each library that is loaded before there is a lease. In the template."""
    if OPENMP not in environment:
        environment[OPENMP] = "1"
        _ours.append(OPENMP)


class ThreadLimits:
    """Those of one worker, whose variables of program and runtime_env are `own`. Undoes what `begin` has set."""

    def __init__(self, own: Container[str], environment: MutableMapping[str, str] = os.environ) -> None:
        self._environment = environment
        for name in _ours:
            if name not in own:
                environment.pop(name, None)
        self._names = [name for name in VARIABLES if name not in environment] if OPENMP not in environment else []
        self._threads = 0

    def apply(self, cpu_units: int) -> None:
        """A lease begins that has so much CPU (see `kernel_spec.resources`)."""
        threads = max(1, cpu_units // UNIT)
        if not self._names or threads == self._threads:
            return
        self._threads = threads
        self._environment.update(dict.fromkeys(self._names, str(threads)))
        torch = sys.modules.get("torch")
        if torch is not None:
            with suppress(Exception):  # one that is only half imported, or another thing of that name
                torch.set_num_threads(threads)
