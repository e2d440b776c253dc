"""A backend for joblib, and so for scikit-learn: `register_kernel()`, then `with joblib.parallel_config("kernel"):`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from joblib.parallel import (  # type: ignore[import-untyped]
    AutoBatchingMixin,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
    register_parallel_backend,
)

import kernel
from kernel_parallel.executor import KernelExecutor
from kernel_parallel.shared_arguments import SharedArguments, run_batch
from kernel_parallel.workers.start import cluster_cpus, ensure_session

_DEEPEST = 1
"""How deep parallel calls within parallel calls get workers of their own; deeper ones run one after another."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def register_kernel(name: str = "kernel") -> None:
    """Make the backend known to joblib under a name."""
    register_parallel_backend(name, KernelBackend)


class KernelBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """Runs joblib's batches on workers of the session, and keeps these for the next call.

    `n_jobs=-1` means all CPUs of the session. Arrays and tables of more than 100 KB are stored once for a parallel
    call, and read by all of its tasks where they lie: they can't be changed there. Parallel calls in tasks get workers,
    too. `kernel_address` and `kernel_remote_args` are those of `kernel.parallel.KernelExecutor`.
    """

    supports_retrieve_callback = True
    supports_return_generator = True
    supports_timeout = True
    supports_inner_max_num_threads = True
    uses_threads = False
    supports_sharedmem = False

    def __init__(
        self,
        *,
        kernel_address: str | None = None,
        kernel_remote_args: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._address = kernel_address
        self._remote_args = dict(kernel_remote_args or {})
        self._executor: KernelExecutor | None = None
        self._shared = SharedArguments()

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many workers `n_jobs` means; a negative number counts from all CPUs of the session."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        if n_jobs < 0:
            ensure_session(self._address)
            n_jobs = max(1, cluster_cpus() + 1 + n_jobs)
        return n_jobs

    def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        """Have workers ready for a parallel call; return how many."""
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        ensure_session(self._address)
        self._executor = _executors.get(n_jobs, self.inner_max_num_threads, self._remote_args)
        self.parallel = parallel
        return n_jobs

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], Any] | None = None) -> Future[Any]:
        """Have a batch run; `callback` gets its future."""
        assert self._executor is not None
        future = self._executor.submit(run_batch, *self._shared.replaced(func))
        if callback is not None:
            future.add_done_callback(callback)
        return future

    apply_async = submit  # what joblib before 1.5 calls it

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """Return a batch's results, or raise what it raised."""
        return out.result()

    def stop_call(self) -> None:
        """Forget what was stored for the tasks of this call."""
        self._shared.clear()

    def terminate(self) -> None:
        """Let go of the workers, which stay for the next call."""
        self._executor = None
        self._shared.clear()
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """End the workers with what they do; with `ensure_ready` have new ones."""
        if self._executor is not None:
            _executors.end(self._executor)
            self._executor = None
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)

    def get_nested_backend(self) -> tuple[Any, int | None]:
        """Return the backend of parallel calls within tasks."""
        level = (self.nesting_level or 0) + 1
        if level > _DEEPEST:
            return SequentialBackend(nesting_level=level), None
        return KernelBackend(nesting_level=level, kernel_remote_args=self._remote_args), None

    def __reduce__(self) -> Any:
        return _rebuild, (self.nesting_level, self.inner_max_num_threads, self._remote_args)


class _Executors:
    """The executors of this process, by what was asked of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[Any, KernelExecutor]] = {}

    def get(self, workers: int, threads: int | None, remote_args: Mapping[str, Any]) -> KernelExecutor:
        """Return an executor of this session with so many workers, whose libraries use so many threads."""
        key = repr((workers, threads, sorted(remote_args.items())))
        session = (kernel.get_runtime_context().get_job_id(), kernel.get_runtime_context().get_worker_id())
        with self._lock:
            known = self._kept.get(key)
            if known is None or known[0] != session:
                executor = KernelExecutor(workers, _limit_threads, (threads,), kernel_remote_args=remote_args)
                known = self._kept[key] = (session, executor)
            return known[1]

    def end(self, executor: KernelExecutor) -> None:
        """End an executor's workers, and forget it."""
        with self._lock:
            self._kept = {key: known for key, known in self._kept.items() if known[1] is not executor}
        executor.terminate()


_executors = _Executors()


def _rebuild(level: int, threads: int | None, remote_args: Mapping[str, Any]) -> KernelBackend:
    return KernelBackend(nesting_level=level, inner_max_num_threads=threads, kernel_remote_args=remote_args)


def _limit_threads(threads: int | None) -> None:
    """Have numerical libraries in this worker use so many threads; None leaves them as workers are."""
    if threads is None:
        return
    os.environ.update(dict.fromkeys(_THREADS, str(threads)))
    try:
        import threadpoolctl  # type: ignore[import-not-found]  # scikit-learn brings it; for libraries loaded already
    except ImportError:
        return
    threadpoolctl.threadpool_limits(threads)
