"""Numbers that callbacks report, reduced from call to call and from iteration to iteration."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import numpy as np

from kernel_rllib.errors import ConfigError

Key: TypeAlias = "str | tuple[str, ...]"
Reduce: TypeAlias = Literal["mean", "sum", "min", "max"] | None
Logged: TypeAlias = "list[list[Any]]"
"""Values and how they are reduced, as lists: [path, reduce, window, ema_coeff, clear_on_reduce, values]."""

Moment: TypeAlias = "tuple[int, int, int]"
"""The moment of a logged value: the number of steps of its lane, the phase of that step, and the lane's number."""

BEFORE_ALL, OF_STEP, OF_START, OF_SAMPLE, AFTER_SAMPLE = range(5)
"""The phases, in the order in which one runner goes through them with all of its lanes."""

Forwarded: TypeAlias = "list[tuple[Moment, list[Any]]]"
"""Values as they came, each with its moment."""

REDUCTIONS = ("mean", "sum", "min", "max", None)
EMA_COEFFICIENT = 0.01
"""The weight of each new value in a mean without a window."""


class Stats:
    """The values of one key."""

    def __init__(self, reduce: Reduce, window: int | None, ema_coeff: float | None, clear_on_reduce: bool) -> None:
        """Reduce by a mean, sum, least or greatest value; over a window, or since the last reduction if it clears."""
        self.reduce, self.window, self.ema_coeff, self.clear_on_reduce = reduce, window, ema_coeff, clear_on_reduce
        self._values: deque[Any] = deque(maxlen=window)

    @property
    def settings(self) -> tuple[Any, ...]:
        """The settings of the reduction: its name, window, coefficient, and whether it clears."""
        return self.reduce, self.window, self.ema_coeff, self.clear_on_reduce

    def push(self, value: Any) -> None:
        """Take in a value. Where nothing else is asked for, one number stands for all before."""
        self._values.append(value)
        if self.window is None and not self.clear_on_reduce and self.reduce is not None:
            self._values = deque([self.peek()])

    def peek(self) -> Any:
        """Return what the values are reduced to; NaN for the mean of none."""
        values = list(self._values)
        if self.reduce is None:
            return values
        if self.reduce == "sum":
            return sum(values)
        if not values:
            return float("nan")
        if self.reduce != "mean":
            return (min if self.reduce == "min" else max)(values)
        if self.window is not None or self.clear_on_reduce:
            return float(np.mean(values))
        mean = values[0]
        for value in values[1:]:
            mean += (EMA_COEFFICIENT if self.ema_coeff is None else self.ema_coeff) * (value - mean)
        return mean

    def take(self) -> Any:
        """Return the same, and forget the values if it clears."""
        value = self.peek()
        if self.clear_on_reduce:
            self._values.clear()
        return value

    def values(self) -> list[Any]:
        """Return the values that are kept."""
        return list(self._values)


class MetricsLogger:
    """Takes in values by key, and gives one tree of what they are reduced to."""

    def __init__(self, *, forwards: bool = False) -> None:
        """Begin without values.

        Args:
            forwards: Whether values are kept as they come, until `drain`: for runners, whose values are reduced with
                those of others, in the order of their moments.
        """
        self.moment: Moment = (-1, BEFORE_ALL, 0)
        """The moment of the values that are logged next, in a logger that forwards them."""
        self._stats: dict[tuple[str, ...], Stats] = {}
        self._forwards = forwards
        self._forwarded: Forwarded = []

    def log_value(
        self,
        key: Key,
        value: Any,
        *,
        reduce: Reduce = "mean",
        window: int | None = None,
        ema_coeff: float | None = None,
        clear_on_reduce: bool = False,
        **_: Any,
    ) -> None:
        """Report a value.

        Args:
            key: Its name in results, or a path of names.
            value: A number; anything where `reduce` is None.
            reduce: The summary of several: their `"mean"`, `"sum"`, `"min"`, `"max"`, or None for a list of them.
            window: The number of the last ones that count; None for all, of which a mean forgets old ones slowly.
            ema_coeff: The weight of a new value in that mean, from 0 to 1; None for 0.01.
            clear_on_reduce: Whether each iteration begins anew.

        Raises:
            ConfigError: If there is no such reduction, or the same key was reported with another.
        """
        path = (key,) if isinstance(key, str) else tuple(key)
        if reduce not in REDUCTIONS:
            raise ConfigError(f"log_value({key!r}): reduce is {reduce!r}, but must be one of {REDUCTIONS}")
        number = value if reduce is None else _number(key, value)
        if self._forwards:
            entry = [list(path), reduce, window, ema_coeff, clear_on_reduce, [number]]
            self._forwarded.append((self.moment, entry))
        stats = self._stats_of(path, (reduce, window, ema_coeff, clear_on_reduce))
        stats.push(number)

    def log_dict(self, values: Mapping[str, Any], *, key: Key = (), **settings: Any) -> None:
        """Report all values of a tree, each as `log_value` does, below `key`."""
        above = (key,) if isinstance(key, str) else tuple(key)
        for name, value in values.items():
            if isinstance(value, Mapping):
                self.log_dict(value, key=(*above, name), **settings)
            else:
                self.log_value((*above, name), value, **settings)

    def set_value(self, key: Key, value: Any, **settings: Any) -> None:
        """Report a value that takes the place of all before."""
        self.delete(key)
        self.log_value(key, value, **settings)

    @contextmanager
    def log_time(self, key: Key, **settings: Any) -> Iterator[None]:
        """Report the seconds that a `with` block takes."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.log_value(key, time.perf_counter() - began, **settings)

    def peek(self, key: Key | None = None, default: Any = None) -> Any:
        """Return what a key is reduced to now, or the tree of all; `default` where nothing was reported."""
        if key is None:
            return _tree({path: stats.peek() for path, stats in self._stats.items()})
        stats = self._stats.get((key,) if isinstance(key, str) else tuple(key))
        return default if stats is None else stats.peek()

    def delete(self, key: Key) -> None:
        """Forget what was reported under a key."""
        self._stats.pop((key,) if isinstance(key, str) else tuple(key), None)

    def reduce(self) -> dict[str, Any]:
        """Return the tree of what all keys are reduced to, and begin anew where they clear."""
        return _tree({path: stats.take() for path, stats in self._stats.items()})

    def forget(self, is_void: Callable[[Moment], bool]) -> None:
        """Let it be as if nothing had been logged at some moments; for a logger that forwards."""
        self._forwarded = [each for each in self._forwarded if not is_void(each[0])]

    def drain(self) -> Forwarded:
        """Return all values since this was last asked; for a logger that forwards."""
        forwarded, self._forwarded = self._forwarded, []
        for stats in self._stats.values():
            stats.take()
        return forwarded

    def take_in_forwarded(self, forwarded: Forwarded, above: tuple[str, ...] = ()) -> None:
        """Take in what `drain` of several loggers returned, below a path, as if one had logged all of it.

        Means that forget, and windows, depend on the order of values. That of moments is the order in which one runner
        with all lanes would have logged them.
        """
        self.take_in([entry for _, entry in sorted(forwarded, key=lambda each: each[0])], above)

    def take_in(self, logged: Logged, above: tuple[str, ...] = ()) -> None:
        """Take in what `state` returned, below a path."""
        for path, reduce, window, ema_coeff, clear_on_reduce, values in logged:
            stats = self._stats_of((*above, *path), (reduce, window, ema_coeff, clear_on_reduce))
            for value in values:
                stats.push(value)

    def state(self) -> Logged:
        """Return all that it needs to go on elsewhere; values that are no numbers are left out."""
        return [
            [list(path), *stats.settings, stats.values()]
            for path, stats in self._stats.items()
            if stats.reduce is not None
        ]

    def _stats_of(self, path: tuple[str, ...], settings: Sequence[Any]) -> Stats:
        stats = self._stats.get(path)
        if stats is None:
            stats = self._stats[path] = Stats(*settings)
        elif stats.settings != tuple(settings):
            raise ConfigError(
                f"{'/'.join(path)} was reported with (reduce, window, ema_coeff, clear_on_reduce) = {stats.settings}, "
                f"and now with {tuple(settings)}: give it the same ones each time, or another name"
            )
        return stats


def _number(key: Key, value: Any) -> float | int:
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:
        value = value.item()
    if isinstance(value, (bool, int, float)):
        return value
    raise ConfigError(
        f"log_value({key!r}) got {value!r}, a {type(value).__name__}: give one number, or reduce=None for a list of "
        "what was reported"
    )


def _tree(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, value in values.items():
        branch = found
        for name in path[:-1]:
            inside = branch.setdefault(name, {})
            branch = inside if isinstance(inside, dict) else branch.setdefault(f"{name}/", {})
        branch[path[-1]] = value
    return found
