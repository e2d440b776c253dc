"""Running linear algebra on small matrices in one thread."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which the BLAS libraries of this process use one thread.

    Matrices of a few hundred rows gain nothing from more threads. On a machine that is busy with trials, the threads
    wait for each other, and a suggestion takes ten times as long.
    """
    return _controller().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@functools.cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401 - its libraries must be there to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
