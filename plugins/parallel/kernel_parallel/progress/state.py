"""The state of a progress bar, as values that are sent, and as text."""

from __future__ import annotations

from kernel_spec.dataclass import dataclass

_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(slots=True)
class BarState:
    """A bar at one moment. `id`: its own among all; `elapsed`: seconds since it began; `total`: None if unknown."""

    id: str
    n: float
    total: float | None
    elapsed: float
    desc: str = ""
    unit: str = "it"
    scale: bool = False
    divisor: float = 1000
    postfix: str = ""
    position: int | None = None
    columns: int | None = None
    ascii: bool = False
    leave: bool = True
    closed: bool = False

    @property
    def share(self) -> float | None:
        """How much is done, from 0 to 1; None when the total is not known."""
        return min(1.0, max(0.0, self.n / self.total)) if self.total else None


def render(state: BarState, width: int) -> str:
    """Return a bar as one line of at most `width` characters; without the bar itself where there is no room for it."""
    left, right = _left(state), _right(state)
    if state.columns:
        width = min(width, state.columns)
    if state.share is None:
        return f"{left}{right}"[:width]
    room = width - len(left) - len(right) - 3
    if room < 3:
        return f"{left} {right}"[:width]
    return f"{left}|{_bar(state.share, room, state.ascii)}| {right}"


def render_plain(state: BarState) -> str:
    """Return a bar as a line for a file: numbers only."""
    left, right = _left(state), _right(state)
    return f"{left} {right}" if state.share is not None else f"{left}{right}"


def seconds_in_words(seconds: float) -> str:
    """Return a duration as `01:05`, or `1:00:05` from an hour on."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def number_in_words(value: float, divisor: float = 1000) -> str:
    """Return a number in three digits and a letter, as `1.23k`."""
    for letter in ("", "k", "M", "G", "T", "P"):
        if abs(value) < 999.5:
            digits = 0 if not letter and value == int(value) else max(0, 2 - (len(f"{abs(value):.0f}") - 1))
            return f"{value:.{digits}f}{letter}"
        value /= divisor
    return f"{value:.3g}E"


def _left(state: BarState) -> str:
    label = f"{state.desc}: " if state.desc else ""
    if state.share is not None:
        return f"{label}{100 * state.share:3.0f}%"
    return label


def _right(state: BarState) -> str:
    amount = _amount(state.n, state)
    if state.total:
        amount += f"/{_amount(state.total, state)}"
    else:
        amount += state.unit
    rate = state.n / state.elapsed if state.elapsed > 0 and state.n else 0.0
    left = f"<{_remaining(state, rate)}" if state.total else ""
    speed = _speed(rate, state)
    rest = f", {state.postfix}" if state.postfix else ""
    return f"{amount} [{seconds_in_words(state.elapsed)}{left}, {speed}{rest}]"


def _amount(value: float, state: BarState) -> str:
    if state.scale:
        return number_in_words(value, state.divisor)
    return f"{value:g}" if value != int(value) else str(int(value))


def _remaining(state: BarState, rate: float) -> str:
    if not rate or state.total is None:
        return "?"
    return seconds_in_words(max(0.0, (state.total - state.n) / rate))


def _speed(rate: float, state: BarState) -> str:
    if not rate:
        return f"?{state.unit}/s"
    if rate < 1:
        return f"{1 / rate:5.2f}s/{state.unit}"
    number = number_in_words(rate, state.divisor) if state.scale else f"{rate:5.2f}"
    return f"{number}{state.unit}/s"


def _bar(share: float, room: int, ascii: bool) -> str:
    if ascii:
        full = int(share * room)
        return "#" * full + " " * (room - full)
    full, eighths = divmod(int(share * room * 8), 8)
    return ("█" * full + (_EIGHTHS[eighths] if full < room else "")).ljust(room)
