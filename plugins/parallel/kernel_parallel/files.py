"""A function over all files of a directory, in parallel."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import kernel
from kernel.exceptions import FaultError, TaskCancelledError, TaskError, UsageError
from kernel_parallel.progress import tqdm

R = TypeVar("R")
_AHEAD_PER_CPU = 4


class FileError(TaskError):
    """A function failed on a file. `path` is the file, `__cause__` what was raised."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.path)


class FileResults(Generic[R]):
    """The results of `map_files`, which are made while they are gone through: a number of files ahead, no more."""

    def __init__(
        self, function: Callable[[Path], R], paths: list[Path], progress: bool, options: dict[str, Any]
    ) -> None:
        self.paths = paths
        self._function = function
        self._progress = progress
        self._options = options

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[R]:
        task = kernel.remote(_call).options(**{"name": _name(self._function), **self._options})
        shared = kernel.put(self._function)
        ahead = max(1, int(_AHEAD_PER_CPU * kernel.cluster_resources().get("CPU", 1)))
        waiting: deque[tuple[Path, Any]] = deque()
        left = iter(self.paths)
        bar: tqdm[R] = tqdm(total=len(self.paths), desc=_name(self._function), unit="file", disable=not self._progress)
        try:
            for path in left:
                waiting.append((path, task.remote(shared, str(path))))
                if len(waiting) >= ahead:
                    yield self._next(waiting, bar)
            while waiting:
                yield self._next(waiting, bar)
        finally:
            for _, ref in waiting:
                kernel.cancel(ref)
            bar.close()

    def _next(self, waiting: deque[tuple[Path, Any]], bar: tqdm[Any]) -> R:
        path, ref = waiting.popleft()
        try:
            result: R = kernel.get(ref)
        except (TaskError, FaultError, TaskCancelledError) as error:
            cause = getattr(error, "cause", None) or error
            what = f"{type(cause).__name__}: {(str(cause) or 'no message').splitlines()[0]}"
            raise FileError(f"{_name(self._function)}() failed on {path}: {what}", str(path)) from error
        bar.update()
        return result


@overload
def map_files(
    function: Callable[[Path], R], directory: str | os.PathLike[str], pattern: str = "*", progress: bool = True
) -> list[R]: ...


@overload
def map_files(
    function: Callable[[Path], R],
    directory: str | os.PathLike[str],
    pattern: str = "*",
    progress: bool = True,
    *,
    lazy: bool,
    **options: Any,
) -> Any: ...


def map_files(
    function: Callable[[Path], R],
    directory: str | os.PathLike[str],
    pattern: str = "*",
    progress: bool = True,
    *,
    lazy: bool = False,
    **options: Any,
) -> Any:
    """Call `function(path)` in tasks for each file of a directory; return the results in the order of the file names.

    pattern: which files, as in `Path.glob`; `"**/*.csv"` looks into directories below. progress: draw a bar. lazy:
    return a `FileResults` to go through once the results are wanted, which holds a few at a time. options: those of
    `kernel.remote`, for each task. Raises FileError, which names the file, when the function fails on one, UsageError
    when there is no such directory. The files must be where the tasks run: on one machine, or on a shared disk.
    """
    root = Path(directory).absolute()
    if not root.is_dir():
        raise UsageError(f"{directory} is not a directory; map_files() takes one and calls the function on its files")
    paths = sorted(path for path in root.glob(pattern) if path.is_file())
    results: FileResults[R] = FileResults(function, paths, progress, options)
    return results if lazy else list(results)


def _call(function: Callable[[Path], R], path: str) -> R:
    return function(Path(path))


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
