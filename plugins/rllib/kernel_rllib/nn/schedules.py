"""Numbers that change over training: learning rates, coefficients, exploration.

Written as RLlib's configurations write them: a number, `[[step, value], ...]`, or a dict with a "type".
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Protocol

from kernel_rllib.errors import ConfigError


class Schedule(Protocol):
    """A number over time, which is counted in steps of the environment."""

    def value(self, t: float) -> float:
        """Return the number after `t` steps."""


class ConstantSchedule:
    """Always the same number."""

    def __init__(self, value: float) -> None:
        self._value = float(value)

    def value(self, t: float) -> float:
        """Return the number."""
        return self._value


class PiecewiseSchedule:
    """Lines between `endpoints`, pairs of a step and a value; before the first and after the last as there.

    `outside_value` is what holds before the first and after the last, where one is given.
    """

    def __init__(self, endpoints: Sequence[Sequence[float]], outside_value: float | None = None) -> None:
        self._steps = [float(step) for step, _ in endpoints]
        self._values = [float(value) for _, value in endpoints]
        self._outside = outside_value

    def value(self, t: float) -> float:
        """Return the number after `t` steps."""
        k = bisect_right(self._steps, t)
        inside = 0 < k < len(self._steps) or (k > 0 and t == self._steps[-1])
        if not inside and self._outside is not None:
            return float(self._outside)
        if k == 0:
            return self._values[0]
        if k == len(self._steps):
            return self._values[-1]
        share = (t - self._steps[k - 1]) / (self._steps[k] - self._steps[k - 1])
        return self._values[k - 1] + share * (self._values[k] - self._values[k - 1])


class PolynomialSchedule:
    """From `initial_p` to `final_p` within `schedule_timesteps`.

    final_p + (initial_p - final_p) * (1 - t / schedule_timesteps) ** power
    """

    def __init__(self, schedule_timesteps: float, final_p: float, initial_p: float = 1.0, power: float = 2.0) -> None:
        self._steps, self._final, self._initial, self._power = schedule_timesteps, final_p, initial_p, power

    def value(self, t: float) -> float:
        """Return the number after `t` steps."""
        left = 1 - min(max(t, 0), self._steps) / self._steps
        return float(self._final + (self._initial - self._final) * left**self._power)


class LinearSchedule(PolynomialSchedule):
    """A line from `initial_p` to `final_p` within `schedule_timesteps`."""

    def __init__(self, schedule_timesteps: float, final_p: float, initial_p: float = 1.0) -> None:
        super().__init__(schedule_timesteps, final_p, initial_p, power=1.0)


class ExponentialSchedule:
    """`initial_p` times `decay_rate` for every `schedule_timesteps`: initial * rate ** (t / steps)."""

    def __init__(self, schedule_timesteps: float, initial_p: float = 1.0, decay_rate: float = 0.1) -> None:
        self._steps, self._initial, self._rate = schedule_timesteps, initial_p, decay_rate

    def value(self, t: float) -> float:
        """Return the number after `t` steps."""
        return float(self._initial * self._rate ** (t / self._steps))


_TYPES: dict[str, tuple[type[Any], tuple[str, ...], tuple[str, ...]]] = {
    "constant": (ConstantSchedule, ("value",), ()),
    "piecewise": (PiecewiseSchedule, ("endpoints",), ("outside_value",)),
    "linear": (LinearSchedule, ("schedule_timesteps", "final_p"), ("initial_p",)),
    "polynomial": (PolynomialSchedule, ("schedule_timesteps", "final_p"), ("initial_p", "power")),
    "exponential": (ExponentialSchedule, ("schedule_timesteps",), ("initial_p", "decay_rate")),
}
"""Class, arguments that must be there, and arguments that may be there."""


def schedule(given: Any, field: str) -> Schedule:
    """Return the schedule that a configuration gives for `field`, such as "lr" or "entropy_coeff".

    `given` is a number; pairs `[[step, value], ...]` with rising steps (lines between them); a dict with a "type"
    ("constant", "piecewise", "linear", "polynomial", "exponential", or RLlib's class names such as "LinearSchedule")
    and the arguments of that class; or a schedule. Raises ConfigError, which names the field, for anything else.
    """
    if hasattr(given, "value") and callable(given.value):
        return given  # type: ignore[no-any-return]
    if _is_number(given):
        return ConstantSchedule(given)
    if isinstance(given, Mapping):
        return _from_dict(given, field)
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        return PiecewiseSchedule(_checked_endpoints(given, field))
    raise ConfigError(
        f"{field} is {given!r}: give a number, pairs of a step and a value such as [[0, 0.001], [1000000, 0.0001]], or "
        f"a dict such as {{'type': 'linear', 'schedule_timesteps': 1000000, 'final_p': 0.0001}}"
    )


def _from_dict(given: Mapping[str, Any], field: str) -> Schedule:
    name = str(given.get("type", ""))
    kind = name.rpartition(".")[2].removesuffix("Schedule").lower()
    if kind not in _TYPES:
        raise ConfigError(f"{field} has the type {name!r}: take one of {', '.join(_TYPES)}")
    made, needed, optional = _TYPES[kind]
    arguments = {key: value for key, value in given.items() if key not in ("type", "framework")}
    for key in needed:
        if key not in arguments:
            raise ConfigError(f"{field} is a {kind} schedule without {key!r}: it needs {', '.join(needed)}")
    for key, value in arguments.items():
        if key not in needed + optional:
            raise ConfigError(f"{field} is a {kind} schedule and has {key!r}: it takes {', '.join(needed + optional)}")
        if key == "endpoints":
            arguments[key] = _checked_endpoints(value, field)
        elif not (_is_number(value) or (key == "outside_value" and value is None)):
            raise ConfigError(f"{field} has {value!r} for {key!r}: give a number")
    if arguments.get("schedule_timesteps", 1) <= 0:
        raise ConfigError(
            f"{field} has {arguments['schedule_timesteps']!r} for 'schedule_timesteps': give more than zero"
        )
    return made(**arguments)  # type: ignore[no-any-return]


def _checked_endpoints(given: Any, field: str) -> list[tuple[float, float]]:
    """Return pairs of a step and a value; raise ConfigError where they are none, or the steps don't rise."""
    endpoints: list[tuple[float, float]] = []
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)) or not given:
        raise ConfigError(f"{field} has the endpoints {given!r}: give pairs of a step and a value")
    for pair in given:
        if not isinstance(pair, Sequence) or isinstance(pair, (str, bytes)) or len(pair) != 2:
            raise ConfigError(f"{field} has {pair!r} where a pair of a step and a value is expected")
        if not all(map(_is_number, pair)):
            raise ConfigError(f"{field} has the pair {pair!r}: both must be numbers")
        if endpoints and pair[0] <= endpoints[-1][0]:
            raise ConfigError(f"{field} has step {pair[0]} after step {endpoints[-1][0]}: the steps must rise")
        endpoints.append((float(pair[0]), float(pair[1])))
    return endpoints


def _is_number(given: Any) -> bool:
    return isinstance(given, Real) and not isinstance(given, bool) and not math.isnan(given)
