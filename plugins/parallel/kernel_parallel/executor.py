"""`concurrent.futures.Executor` on the workers of a session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from itertools import islice
from typing import Any

from kernel.exceptions import TaskCancelledError
from kernel_parallel.workers.jobs import CallJob
from kernel_parallel.workers.start import cluster_cpus, ensure_session, start_dispatcher


class KernelExecutor(Executor):
    """Calls functions in `max_workers` worker processes, by default one for each CPU of the session.

    `initializer(*initargs)` runs first in each, and what it raises every call raises; a worker is replaced after
    `max_tasks_per_child` calls, or when it dies, and then its call is made again. Without a session one is started, or
    the one at `kernel_address` joined. `kernel_remote_args` are options of the workers, which are actors; with
    `max_task_retries` among them, how often a call whose worker died is made again (3), after which it fails with
    WorkerDiedError. Raises ValueError for numbers that can't be.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        max_tasks_per_child: int | None = None,
        kernel_address: str | None = None,
        kernel_remote_args: Mapping[str, Any] | None = None,
    ) -> None:
        if max_workers is not None and max_workers < 1:
            raise ValueError(f"max_workers must be at least 1, not {max_workers}")
        if max_tasks_per_child is not None and max_tasks_per_child < 1:
            raise ValueError(f"max_tasks_per_child must be at least 1, not {max_tasks_per_child}")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        ensure_session(kernel_address)
        self._workers = max_workers or cluster_cpus()
        self._dispatcher = start_dispatcher(
            self._workers, initializer, tuple(initargs), max_tasks_per_child, kernel_remote_args
        )
        self._lock = threading.Lock()
        self._open: set[Future[Any]] = set()
        self._ended = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have `fn(*args, **kwargs)` called, and return its future, which can be cancelled until it is sent.

        Raises RuntimeError after `shutdown`.
        """
        future: Future[Any] = Future()
        with self._lock:
            if self._ended:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._open.add(future)
        future.add_done_callback(self._open.discard)
        self._dispatcher.submit(CallJob(fn, args, kwargs, _filler(future), future.set_running_or_notify_cancel))
        return future

    def map(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[Any]:
        """Return an iterator over `fn(*items)`, in order; `chunksize` calls go to a worker together.

        Raises TimeoutError when a result is asked for that is not there `timeout` seconds after this call.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        chunks = super().map(_Chunk(fn), _cut(zip(*iterables, strict=False), chunksize), timeout=timeout)
        return (result for chunk in chunks for result in chunk)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; workers end when all is done. With `wait` return then, not before.

        `cancel_futures` cancels what was not sent to a worker.
        """
        with self._lock:
            self._ended = True
            waiting = list(self._open) if cancel_futures else []
        for future in waiting:
            future.cancel()
        if wait:
            self._dispatcher.drain()
        else:
            threading.Thread(target=self._dispatcher.drain, name="kernel-executor-end", daemon=True).start()

    def terminate(self) -> None:
        """End all workers at once; calls that are not over fail with TaskCancelledError."""
        with self._lock:
            self._ended = True
        self._dispatcher.terminate(TaskCancelledError("the executor was terminated before this was done"))


class _Chunk:
    """A function over a chunk of tuples of arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, chunk: list[tuple[Any, ...]]) -> list[Any]:
        return [self._function(*args) for args in chunk]


def _cut(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while chunk := list(islice(items, size)):
        yield chunk


def _filler(future: Future[Any]) -> Callable[[bool, Any], None]:
    def fill(ok: bool, value: Any) -> None:
        if ok:
            future.set_result(value)
        else:
            future.set_exception(value)

    return fill
