"""Small helpers of `ray.util`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import kernel
from kernel_compat_ray.functions import RemoteFunction

_logged: set[object] = set()
_disabled = False
_period_seconds = 0.0
_forgotten_at = 0.0


def as_completed(
    refs: Sequence[kernel.ObjectRef], *, chunk_size: int = 10, yield_obj_refs: bool = False
) -> Iterator[Any]:
    """Yield the values of references as they come, or the references themselves."""
    left = list(refs)
    while left:
        ready, left = kernel.wait(left, num_returns=1)
        yield from ready if yield_obj_refs else kernel.get(ready)


def map_unordered(
    fn: Any,
    items: Iterable[Any],
    *,
    backpressure_size: int | None = 100,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
) -> Iterator[Any]:
    """Yield `fn`'s results for items as they come; at most `backpressure_size` calls wait at once."""
    call = fn.remote if isinstance(fn, RemoteFunction) or hasattr(fn, "remote") else fn
    waiting = iter(items)
    left = [call(item) for item in itertools.islice(waiting, backpressure_size)]
    while left:
        ready, left = kernel.wait(left, num_returns=1)
        left += [call(item) for item in itertools.islice(waiting, 1)]
        yield from ready if yield_obj_refs else kernel.get(ready)


def log_once(key: object) -> bool:
    """Return True the first time it is asked for `key`."""
    global _forgotten_at
    if _disabled:
        return False
    if _period_seconds and time.monotonic() - _forgotten_at > _period_seconds:
        _logged.clear()
        _forgotten_at = time.monotonic()
    if key in _logged:
        return False
    _logged.add(key)
    return True


def reset_log_once(key: object = None) -> None:
    """Let `log_once` return True again for `key`, for every key if none is named."""
    if key is None:
        _logged.clear()
    else:
        _logged.discard(key)


def disable_log_once_globally() -> None:
    """Let `log_once` return False from now on."""
    global _disabled
    _disabled = True


def enable_periodic_logging() -> None:
    """Let `log_once` return True again for a key after a minute."""
    global _disabled, _period_seconds
    _disabled, _period_seconds = False, 60.0


def register_ray() -> None:
    """Let joblib know the back end by the names "ray" and "kernel"."""
    from kernel.parallel.joblib import register_kernel  # Joblib is heavy, and may not be installed.

    register_kernel("ray")
    register_kernel("kernel")
