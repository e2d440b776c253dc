"""The standard library's process pool, on a session: `from kernel.parallel.multiprocessing import Pool`.

`pool` has the methods, `results` what they return, `kernel_parallel.workers` does the work.
"""

from multiprocessing import TimeoutError
from multiprocessing.pool import MaybeEncodingError, RemoteTraceback

from kernel_parallel.multiprocessing.pool import Pool
from kernel_parallel.multiprocessing.results import (
    ApplyResult,
    AsyncResult,
    IMapIterator,
    IMapUnorderedIterator,
    MapResult,
)

__all__ = [
    "ApplyResult",
    "AsyncResult",
    "IMapIterator",
    "IMapUnorderedIterator",
    "MapResult",
    "MaybeEncodingError",
    "Pool",
    "RemoteTraceback",
    "TimeoutError",
]
