"""Progress bars with the interface of tqdm, for programs, tasks and actors."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, Generic, TextIO, TypeVar

import kernel
from kernel.exceptions import OptionError
from kernel_parallel.progress.board import in_worker, listener, reporter
from kernel_parallel.progress.screen import Screen, screen
from kernel_parallel.progress.state import BarState, render_plain

T = TypeVar("T")
_WITHOUT_EFFECT = {
    *("maxinterval", "miniters", "dynamic_ncols", "smoothing", "bar_format", "write_bytes"),
    *("lock_args", "nrows", "colour", "delay", "gui"),
}
"""Options of tqdm that are taken and change nothing here."""


class tqdm(Generic[T]):
    """A progress bar: go through it instead of the iterable, or call `update`. Use it as `with` or `close()` it.

    iterable, total: what to go through, and how many it will be (its `len` unless given). desc: what stands before
    the bar. leave: whether it stays when it is done. file: where to draw it, standard error if not given. ncols: how
    wide. mininterval (also flush_interval_s): seconds between two reports. ascii: draw with plain characters. disable:
    draw nothing (None: only where there is no terminal). unit, unit_scale, unit_divisor: what is counted, and whether
    as `1.2k`. initial: where it begins. position: its line among several. postfix: what stands behind.

    In tasks and actors it reports to the program, which draws all bars together (see `show`).
    """

    def __init__(
        self,
        iterable: Iterable[T] | None = None,
        desc: str | None = None,
        total: float | None = None,
        leave: bool | None = True,
        file: TextIO | None = None,
        ncols: int | None = None,
        mininterval: float = 0.1,
        ascii: bool | str | None = None,
        disable: bool | None = False,
        unit: str = "it",
        unit_scale: bool | float = False,
        initial: float = 0,
        position: int | None = None,
        postfix: Mapping[str, Any] | str | None = None,
        unit_divisor: float = 1000,
        flush_interval_s: float | None = None,
        **others: Any,
    ) -> None:
        if unknown := others.keys() - _WITHOUT_EFFECT:
            raise OptionError(f"a progress bar has no option {sorted(unknown)[0]!r}")
        if total is None and isinstance(iterable, Sized):
            total = len(iterable)
        self.iterable = iterable
        self.desc = desc or ""
        self.total = total
        self.leave = bool(leave)
        self.n: float = initial
        self.initial = initial
        self.unit = unit
        self.pos = position
        self.disable = bool(disable) if disable is not None else not (file or sys.stderr).isatty()
        self.postfix = ""
        self._id = uuid.uuid4().hex
        self._columns = ncols
        self._ascii = bool(ascii)
        self._scale, self._divisor = bool(unit_scale), unit_divisor
        self._interval = mininterval if flush_interval_s is None else flush_interval_s
        self._closed = False
        self._begun = time.monotonic()
        self._due = self._begun + self._interval
        self._report = _ignore if self.disable else _reporter(file)
        if postfix:
            self.set_postfix(postfix) if isinstance(postfix, Mapping) else self.set_postfix_str(str(postfix))
        else:
            self.refresh()

    def __iter__(self) -> Iterator[T]:
        if self.iterable is None:
            raise OptionError("this progress bar was given nothing to go through; it is moved by update()")
        clock = time.monotonic
        try:
            for item in self.iterable:
                yield item
                self.n += 1
                if clock() >= self._due:
                    self.refresh()
        finally:
            self.close()

    def __enter__(self) -> tqdm[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError("the total of this progress bar is not known")
        return int(self.total)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return render_plain(self._state())

    def update(self, n: float = 1) -> bool:
        """Count `n` more; return whether that was reported, which is not done more often than every `mininterval`."""
        self.n += n
        if time.monotonic() < self._due:
            return False
        return self.refresh()

    def refresh(self, *_: Any, **__: Any) -> bool:
        """Report how it is now."""
        self._due = time.monotonic() + self._interval
        if self._closed:
            return False
        self._report(self._state())
        return not self.disable

    def close(self) -> None:
        """Draw it a last time. A second time nothing happens."""
        if not self._closed:
            self._closed = True
            self._report(self._state())

    def reset(self, total: float | None = None) -> None:
        """Begin anew, with another total if one is given."""
        self.n, self._begun = 0, time.monotonic()
        if total is not None:
            self.total = total
        if self._closed:
            self._closed, self._id = False, uuid.uuid4().hex
        self.refresh()

    def clear(self, *_: Any, **__: Any) -> None:
        """Do nothing: what is printed comes above the bars without it."""

    def set_description(self, desc: str | None = None, refresh: bool = True) -> None:
        """Set what stands before the bar."""
        self.desc = desc or ""
        self._changed(refresh)

    set_description_str = set_description

    def set_postfix(self, ordered_dict: Mapping[str, Any] | None = None, refresh: bool = True, **values: Any) -> None:
        """Set what stands behind, as `name=value` for each."""
        rows = {**(ordered_dict or {}), **dict(sorted(values.items()))}
        self.set_postfix_str(", ".join(f"{name}={_short(value)}" for name, value in rows.items()), refresh)

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        """Set what stands behind."""
        self.postfix = str(s)
        self._changed(refresh)

    @property
    def format_dict(self) -> dict[str, Any]:
        """The state that it shows, as a dictionary."""
        elapsed = time.monotonic() - self._begun
        rate = (self.n - self.initial) / elapsed if elapsed else None
        known = {"n": self.n, "total": self.total, "elapsed": elapsed, "rate": rate, "initial": self.initial}
        return {**known, "prefix": self.desc, "unit": self.unit, "postfix": self.postfix}

    @classmethod
    def write(cls, s: str, file: TextIO | None = None, end: str = "\n", nolock: bool = False) -> None:
        """Print a line above the bars. `print` does it, too, while bars are shown on a terminal."""
        (file or sys.stdout).write(f"{s}{end}")

    def _changed(self, refresh: bool) -> None:
        """Report a change of words: at once the first time, then as often as a change of numbers."""
        if refresh and time.monotonic() >= self._due:
            self.refresh()

    def _state(self) -> BarState:
        return BarState(
            self._id,
            self.n,
            self.total,
            time.monotonic() - self._begun,
            self.desc,
            self.unit,
            self._scale,
            self._divisor,
            self.postfix,
            self.pos,
            self._columns,
            self._ascii,
            self.leave,
            self._closed,
        )


def trange(*args: int, **options: Any) -> tqdm[int]:
    """Return `tqdm(range(*args), **options)`."""
    return tqdm(range(*args), **options)


def _reporter(file: TextIO | None) -> Any:
    """Return what takes the states of a new bar in this process."""
    if file is not None and file is not sys.stderr:
        own = Screen(file)
        return lambda state: own.show([state])
    if in_worker():
        return reporter.report
    if kernel.is_initialized():
        listener.start()
    return lambda state: screen.show([state])


def _ignore(state: BarState) -> None:
    return


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value).strip()
