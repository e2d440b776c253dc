"""Show a run in progress: a line for each iteration, or a picture that is updated on a terminal."""

from __future__ import annotations

import itertools
import math
from collections import deque
from typing import Any, TextIO

from kernel_runs.progress.terminal import is_terminal, sparkline
from kernel_runs.progress.text import duration
from kernel_runs.reports import TIME_THIS_ITER_S, TIME_TOTAL_S, TRAINING_ITERATION, Report
from kernel_runs.run import Run

_REMEMBERED = 2000
_WIDTH = 48
"""The largest width of the curve, in columns."""
_COLUMNS = (("iteration", 9), ("steps", 11), ("return", 10), ("episodes", 9), ("steps/s", 9), ("seconds", 9))
_PHASES = {"sample": "sampling", "learn": "learning"}


class Numbers:
    """The numbers of a result that are shown.

    Attributes:
        iteration: The number of the iteration, from 1.
        steps: The number of steps of the environment so far.
        mean_return: Of the last episodes; NaN before the first has ended. `least` and `most` are those of single ones.
        length: The mean length of these episodes, in steps.
        episodes: The number of episodes so far.
        sampled: The steps of this iteration.
        rate: These in a second.
        seconds: The duration of all iterations.
        phases: Seconds of this iteration by what was done in them.
    """

    def __init__(self, result: Report) -> None:
        """Find them in a result."""
        took = max(float(result.get(TIME_THIS_ITER_S, 0.0)), 1e-9)
        self.iteration = int(result.get(TRAINING_ITERATION, 0))
        self.steps = int(result.get("timesteps_total", 0))
        self.mean_return = _float(result.get("episode_reward_mean"))
        self.least, self.most = _float(result.get("episode_reward_min")), _float(result.get("episode_reward_max"))
        self.length = _float(result.get("episode_len_mean"))
        self.episodes = int(result.get("episodes_total", 0))
        self.sampled = int(result.get("env_runners", {}).get("num_env_steps_sampled", 0))
        self.rate = self.sampled / took
        self.seconds = float(result.get(TIME_TOTAL_S, 0.0))
        self.phases: dict[str, float] = {}
        for key, spent in result.get("timers", {}).items():
            if key.endswith("_time_ms"):
                phase = key.removesuffix("_time_ms")
                self.phases[_PHASES.get(phase, phase)] = float(spent) / 1000
        self.phases["waiting"] = max(took - sum(self.phases.values()), 0.0)


class Lines:
    """A header, and a line for each iteration: for files, pipes and terminals that can't draw."""

    def __init__(self, stream: TextIO) -> None:
        """Write to this stream."""
        self._stream = stream

    def began(self, run: Run) -> None:
        """Write the header."""
        self.say(f"{run}")
        self.say(" ".join(f"{name:>{width}}" for name, width in _COLUMNS))

    def reported(self, run: Run, result: Report) -> None:
        """Write the line of an iteration."""
        found = Numbers(result)
        cells = (
            str(found.iteration),
            f"{found.steps:,}",
            _number(found.mean_return),
            f"{found.episodes:,}",
            f"{found.rate:,.0f}",
            f"{found.seconds:.1f}",
        )
        self.say(" ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, _COLUMNS, strict=True)))

    def saved(self, run: Run, path: str) -> None:
        """Do nothing: paths are told at the end."""

    def say(self, text: str) -> None:
        """Write a line."""
        self._stream.write(text + "\n")
        self._stream.flush()

    def close(self) -> None:
        """End the display."""


class Picture:
    """A panel at the bottom of a terminal: the return as a curve, counts, and steps a second by phase."""

    def __init__(self, stream: TextIO, width: int | None = None) -> None:
        """Draw on this terminal, `width` characters wide if it is given."""
        self._stream, self._width = stream, width
        self._live: Any = None
        self._returns: deque[float] = deque(maxlen=_REMEMBERED)

    def began(self, run: Run) -> None:
        """Begin a new panel."""
        # rich takes tens of milliseconds to import: only where something is drawn
        from rich.console import Console
        from rich.live import Live

        self.close()
        self._returns.clear()
        console = Console(file=self._stream, width=self._width, force_terminal=True)
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
        self._live.start()

    def reported(self, run: Run, result: Report) -> None:
        """Draw the panel anew."""
        found = Numbers(result)
        if not math.isnan(found.mean_return):
            self._returns.append(found.mean_return)
        if self._live is not None:
            self._live.update(self._panel(run, found), refresh=True)

    def saved(self, run: Run, path: str) -> None:
        """Do nothing: paths are told at the end."""

    def say(self, text: str) -> None:
        """Write a line; above the panel while there is one."""
        if self._live is not None:
            self._live.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            self._stream.write(text + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Leave the panel as it is, and go on below it."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _panel(self, run: Run, found: Numbers) -> Any:
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        curve = Text("return   ", style="bright_black", no_wrap=True, overflow="crop")
        curve.append(_number(found.mean_return), style="bold white")
        curve.append("  " + sparkline(_thinned(list(self._returns), _WIDTH)), style="green")
        curve.append(f"  {_number(found.least)} to {_number(found.most)}", style="bright_black")
        counts = Text("so far   ", style="bright_black", no_wrap=True, overflow="crop")
        counts.append(
            f"{found.steps:,} steps, {found.episodes:,} episodes of {_number(found.length)} steps, "
            f"iteration {found.iteration}, {duration(found.seconds)}",
            style="white",
        )
        phases = Table.grid(padding=(0, 2))
        phases.add_column(style="bright_black", min_width=7)
        for _ in range(3):
            phases.add_column(justify="right")
        total = sum(found.phases.values()) or 1.0
        for name, seconds in found.phases.items():
            rate = f"{found.sampled / seconds:,.0f} steps/s" if seconds > 0.001 and name != "waiting" else ""
            phases.add_row(name, f"{seconds:.2f} s", f"{seconds / total:.0%}", rate)
        phases.add_row("all", f"{total:.2f} s", "", f"{found.rate:,.0f} steps/s", style="bold")
        title = Text(f" {run} ", style="bold")
        return Panel(Group(curve, counts, phases), title=title, title_align="left", border_style="cyan", padding=(0, 1))


def display_for(stream: TextIO) -> Lines | Picture:
    """Return the display that fits a stream."""
    return Picture(stream) if is_terminal(stream) else Lines(stream)


def _float(value: Any) -> float:
    return math.nan if value is None else float(value)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.1f}"


def _thinned(values: list[float], most: int) -> list[float]:
    """Return at most so many values: means of neighbours, where there are more."""
    if len(values) <= most:
        return values
    edges = [index * len(values) // most for index in range(most + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
