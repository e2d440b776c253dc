"""Parallel iterators: items of worker actors, with operators that run in them or where the items are read.

`from_items`, `from_range`, `from_iterators` and `from_actors` make one.
"""

from kernel_parallel.iterators.errors import IterationError, ShardDiedError
from kernel_parallel.iterators.local import LocalIterator
from kernel_parallel.iterators.metrics import MetricsContext, SharedMetrics
from kernel_parallel.iterators.parallel import ParallelIterator
from kernel_parallel.iterators.readiness import NextValueNotReady
from kernel_parallel.iterators.sources import from_actors, from_items, from_iterators, from_range
from kernel_parallel.iterators.worker import ParallelIteratorWorker

_NextValueNotReady = NextValueNotReady  # as programs of old spell it

__all__ = [
    "IterationError",
    "LocalIterator",
    "MetricsContext",
    "NextValueNotReady",
    "ParallelIterator",
    "ParallelIteratorWorker",
    "ShardDiedError",
    "SharedMetrics",
    "from_actors",
    "from_items",
    "from_iterators",
    "from_range",
]
