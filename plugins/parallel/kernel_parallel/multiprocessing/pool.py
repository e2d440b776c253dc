"""The standard library's `multiprocessing.Pool`, on the workers of a session: same methods, same errors, same order.

What differs is for the better: a worker that is killed is replaced and its work done again, nothing of a pool that was
terminated waits for ever, and what pickle can't take (lambdas, functions of an interactive session) works.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.pool import CLOSE, RUN, TERMINATE
from typing import Any, NoReturn

from kernel.exceptions import TaskCancelledError
from kernel_parallel.multiprocessing.feeder import Feeder
from kernel_parallel.multiprocessing.results import AsyncResult, Callback, IMapIterator, IMapUnorderedIterator
from kernel_parallel.multiprocessing.worker_view import WorkerView
from kernel_parallel.workers.chunks import sliceable
from kernel_parallel.workers.jobs import MAP, STARMAP, CallJob, MapJob
from kernel_parallel.workers.start import cluster_cpus, ensure_session, start_dispatcher

_AHEAD = 64
"""How many chunks of an `imap` are read for each worker before one is free."""


class Pool:
    """A pool of worker processes, by default one for each CPU of the session.

    `initializer(*initargs)` runs first in each worker; a worker is replaced after `maxtasksperchild` tasks. Without a
    session one is started, or the one at `kernel_address` joined (`"auto"`, `"HOST:PORT"`; by default that of
    KERNEL_ADDRESS). `kernel_remote_args` are options of the workers, which are actors, such as `{"num_cpus": 1}`;
    `max_task_retries` among them says how often a task whose worker died is done again (3). `context` means nothing
    here. Raises ValueError for numbers that can't be.
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
        *,
        kernel_address: str | None = None,
        kernel_remote_args: Mapping[str, Any] | None = None,
    ) -> None:
        self._state = CLOSE  # until all is there
        if processes is not None and processes < 1:
            raise ValueError(f"Number of processes must be at least 1, not {processes}")
        if maxtasksperchild is not None and (not isinstance(maxtasksperchild, int) or maxtasksperchild < 1):
            raise ValueError(f"maxtasksperchild must be a positive int or None, not {maxtasksperchild!r}")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        if context is not None:
            warnings.warn(
                "the context of a pool is ignored: its workers are processes of the session", UserWarning, stacklevel=2
            )
        ensure_session(kernel_address)
        self._processes = processes or cluster_cpus()
        self._dispatcher = start_dispatcher(
            self._processes, initializer, tuple(initargs), maxtasksperchild, kernel_remote_args
        )
        self._state = RUN

    # -- one call --------------------------------------------------------------------------------------------------

    def apply(self, func: Callable[..., Any], args: Iterable[Any] = (), kwds: Mapping[str, Any] | None = None) -> Any:
        """Return `func(*args, **kwds)`, called in a worker."""
        self._check_running()
        result = AsyncResult()
        self._dispatcher.run(CallJob(func, tuple(args), dict(kwds or {}), result._set))
        return result.get()

    def apply_async(
        self,
        func: Callable[..., Any],
        args: Iterable[Any] = (),
        kwds: Mapping[str, Any] | None = None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
    ) -> AsyncResult:
        """As `apply`, but return an AsyncResult at once; callbacks are called in a thread."""
        self._check_running()
        result = AsyncResult(callback, error_callback)
        self._dispatcher.submit(CallJob(func, tuple(args), dict(kwds or {}), result._set))
        return result

    # -- many calls ------------------------------------------------------------------------------------------------

    def map(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None = None) -> list[Any]:
        """Return `[func(item) for item in iterable]`. `chunksize` items go together; None: as many as pay."""
        return self._map(func, iterable, MAP, chunksize)

    def starmap(
        self, func: Callable[..., Any], iterable: Iterable[Iterable[Any]], chunksize: int | None = None
    ) -> list[Any]:
        """Return `[func(*item) for item in iterable]`."""
        return self._map(func, iterable, STARMAP, chunksize)

    def map_async(
        self,
        func: Callable[[Any], Any],
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
    ) -> AsyncResult:
        """As `map`, but return an AsyncResult at once."""
        return self._map_async(func, iterable, MAP, chunksize, AsyncResult(callback, error_callback))

    def starmap_async(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
    ) -> AsyncResult:
        """As `starmap`, but return an AsyncResult at once."""
        return self._map_async(func, iterable, STARMAP, chunksize, AsyncResult(callback, error_callback))

    def _map(self, func: Callable[..., Any], iterable: Iterable[Any], how: str, chunksize: int | None) -> list[Any]:
        result = AsyncResult()
        job = self._map_job(func, iterable, how, chunksize, result)
        if job is not None:
            self._dispatcher.run(job)
        values: list[Any] = result.get()
        return values

    def _map_async(
        self, func: Callable[..., Any], iterable: Iterable[Any], how: str, chunksize: int | None, result: AsyncResult
    ) -> AsyncResult:
        job = self._map_job(func, iterable, how, chunksize, result)
        if job is not None:
            self._dispatcher.submit(job)
        return result

    def _map_job(
        self, func: Callable[..., Any], iterable: Iterable[Any], how: str, chunksize: int | None, result: AsyncResult
    ) -> MapJob | None:
        self._check_running()
        items = sliceable(iterable)
        if not len(items):
            result._set(True, [])
            return None
        if chunksize is not None:
            chunksize = max(1, int(chunksize))
        return MapJob(func, items, how, result._set, chunksize, self._dispatcher.functions.seconds_per_item(func))

    # -- as they come ----------------------------------------------------------------------------------------------

    def imap(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None = 1) -> IMapIterator:
        """Return an iterator over the results, in order; the iterable is read in a thread as workers become free."""
        return self._imap(func, iterable, chunksize, IMapIterator())

    def imap_unordered(
        self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None = 1
    ) -> IMapUnorderedIterator:
        """As `imap`, but results come in the order in which they are ready."""
        return self._imap(func, iterable, chunksize, IMapUnorderedIterator())

    def _imap(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None, results: Any) -> Any:
        self._check_running()
        size = 1 if chunksize is None else chunksize
        if size < 1:
            raise ValueError(f"Chunksize must be 1+, not {size}")
        feeder = Feeder(self._dispatcher, func, results, _AHEAD * self._processes)
        feeder.start(iter(iterable), size)
        return results

    # -- its life --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Take no more work; workers end when all is done."""
        if self._state == RUN:
            self._state = CLOSE
            self._dispatcher.closing = True

    def terminate(self) -> None:
        """End all workers at once. What was not done raises TaskCancelledError where somebody waits for it."""
        self._state = TERMINATE
        self._dispatcher.terminate(TaskCancelledError("the pool was terminated before this was done"))

    def join(self) -> None:
        """Wait until all is done and the workers have ended. Raises ValueError before `close` or `terminate`."""
        if self._state == RUN:
            raise ValueError("Pool is still running")
        self._dispatcher.drain()

    def __enter__(self) -> Pool:
        self._check_running()
        return self

    def __exit__(self, *error: object) -> None:
        self.terminate()

    def __del__(self, _warn: Any = warnings.warn, _running: str = RUN) -> None:
        if self._state == _running:
            _warn(f"unclosed running multiprocessing pool {self!r}", ResourceWarning, source=self)

    def __reduce__(self) -> NoReturn:
        raise NotImplementedError("pool objects cannot be passed between processes or pickled")

    def __repr__(self) -> str:
        return f"<kernel_parallel.multiprocessing.Pool state={self._state} pool_size={self._processes}>"

    @property
    def _pool(self) -> list[WorkerView]:
        """The workers, as programs look at them for their process ids."""
        return [WorkerView(actor) for actor in self._dispatcher.workers]

    def _check_running(self) -> None:
        if self._state != RUN:
            raise ValueError("Pool not running")
