"""Set how many threads multiply matrices.

The networks of most algorithms are small: a product of 256 x 64 by 64 x 64 numbers takes 25 microseconds in one thread.
BLAS libraries start as many threads as there are cores for it, which wait for each other; beside busy processes a whole
update then takes five to ten times as long. The number of threads also decides in which order products are summed, and
so the last bits: the same bits come only from the same number of threads. So learners and runners use one, unless a
network is large: from about 1,000 rows and 512 x 512 weights on, more threads on idle cores are quicker.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_asked_for: int | None = None
"""The number of threads that BLAS libraries were told to use; None: their own choice."""


@contextmanager
def blas_threads(count: int = 1) -> Iterator[None]:
    """Let the BLAS libraries of this process use `count` threads inside of a `with`, and as many as before after it.

    It holds for the whole process, and takes a few microseconds. Environment variables such as OPENBLAS_NUM_THREADS=1
    do the same for a process from its start. Torch computes in as many threads, where it was imported before.
    """
    global _asked_for
    libraries = [*_libraries(), *_torch()]
    before, asked_before = [library.get_num_threads() for library in libraries], _asked_for
    try:
        for library in libraries:
            library.set_num_threads(count)
        _asked_for = count
        _write_once()
        yield
    finally:
        _asked_for = asked_before
        for library, threads in zip(libraries, before, strict=True):
            library.set_num_threads(threads)


def set_blas_threads(count: int = 1) -> None:
    """Let the BLAS libraries of this process use `count` threads from now on: for processes that do nothing else."""
    global _asked_for
    for library in [*_libraries(), *_torch()]:
        library.set_num_threads(count)
    _asked_for = count
    _write_once()


def one_blas_thread() -> bool:
    """Return whether BLAS libraries were told to use one thread, and so compute the same bits in any thread."""
    return _asked_for == 1


def set_own_blas_threads(count: int) -> None:
    """Let BLAS libraries use `count` threads in the calling thread, where each thread has a number of its own.

    Those that are built with OpenMP are so; others have one number for the process, which stays as it is.
    """
    for library in _libraries():
        if getattr(library, "threading_layer", None) == "openmp":
            library.set_num_threads(count)


def _torch() -> list[Any]:
    """Return torch, whose threads are set by functions of the same names, if it was imported."""
    torch = sys.modules.get("torch")
    return [] if torch is None else [torch]


@functools.cache
def _libraries() -> list[Any]:
    """Return the controllers of the BLAS libraries that numpy has loaded."""
    from threadpoolctl import ThreadpoolController

    np.dot(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))  # they must be loaded to be found
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def write_to_working_memory(times: int = 1) -> None:
    """Multiply two matrices so that OpenBLAS has written to its working memory.

    It copies parts of matrices there, and while it multiplies one, it asks the processor for the memory behind it.
    Where nothing was ever written to that memory, each such request fails, and slowly so: products that sum over 256
    numbers and more take two to six times as long, until there has been a larger one. One of this shape is enough: its
    second matrix is so wide that all of the first is copied. It takes 15 ms, and keeps 1.5 MB.

    Each product that is computed at the same time has working memory of its own. Two threads that call this together
    with several `times` write to that of both: one is in the middle of a product whenever the other begins one.
    """
    one, other = np.ones((64, 640), np.float32), np.ones((640, 1024), np.float32)
    for _ in range(times):
        np.dot(one, other)


_write_once = functools.cache(write_to_working_memory)
