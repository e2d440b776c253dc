"""The parameters of a function, so that a call with wrong arguments fails where it is made.

They are those of the object that is called: of a decorator's wrapper with `(*args, **kwargs)` rather than of the
wrapped function.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from kernel_spec.errors import OptionError
from kernel_spec.nearest import did_you_mean

ANY = 1 << 30


def check_timeout(seconds: Any, name: str = "timeout") -> None:
    """Raise OptionError, with the argument's `name`, unless `seconds` is a number that is zero or more."""
    try:
        if seconds >= 0:
            return
    except (TypeError, ValueError):
        pass
    raise OptionError(f"{name} must be zero or more seconds, not {seconds!r}")


class SignatureParameters(NamedTuple):
    """The arguments that a call may have, as plain values, because they are pickled with handles of actors.

    A call without keyword arguments fits if it has at least `least` and at most `most` arguments; callers check that
    first, because it is cheap.
    """

    least: int
    most: int
    names: tuple[str, ...] = ()
    """Names of the parameters that may be given by position."""
    required: int = 0
    """Number of those, from the first on, that have no default."""
    only_by_place: int = 0
    only_by_name: tuple[str, ...] = ()
    needed_by_name: tuple[str, ...] = ()
    any_name: bool = False

    def problem(self, count: int, given: Mapping[str, Any]) -> str:
        """Return what is wrong with a call of `count` positional and the `given` keyword arguments, in Python's words.

        Return "" for a call that fits.
        """
        if count > self.most:
            takes = str(self.most) if self.required == self.most else f"from {self.required} to {self.most}"
            several = "s" * (takes != "1")
            return f"takes {takes} positional argument{several} but {count} {'was' if count == 1 else 'were'} given"
        by_name = self.names[self.only_by_place :]
        for name in given:
            if name in self.names[:count] and name in by_name:
                return f"got multiple values for argument {name!r}"
            if name not in by_name and name not in self.only_by_name and not self.any_name:
                return (
                    f"got an unexpected keyword argument {name!r}{did_you_mean(name, (*by_name, *self.only_by_name))}"
                )
        missing = [
            name
            for place, name in enumerate(self.names[: self.required])
            if place >= count and (name not in given or place < self.only_by_place)
        ]
        return _missing("positional", missing) or _missing(
            "keyword-only", [name for name in self.needed_by_name if name not in given]
        )


UNKNOWN = SignatureParameters(0, ANY, any_name=True)
"""The parameters of a callable that is not a Python function: every call fits."""


def parameters_of(function: Any, bound: bool = False) -> SignatureParameters:
    """Return the parameters of a function; with `bound` without the first one, which is the object or class."""
    if isinstance(function, MethodType):
        function, bound = function.__func__, True
    if not isinstance(function, FunctionType):
        return UNKNOWN
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    by_name = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    required = len(names) - len(function.__defaults__ or ())
    needed = tuple(name for name in by_name if name not in (function.__kwdefaults__ or {}))
    more = bool(code.co_flags & inspect.CO_VARARGS)
    only_by_place = code.co_posonlyargcount
    if bound:
        if not names and not more:
            return UNKNOWN  # it can't be called at all; Python's own message says so
        names, required, only_by_place = names[1:], max(required - 1, 0), max(only_by_place - 1, 0)
    return SignatureParameters(
        ANY if needed else required,
        ANY if more else len(names),
        names,
        required,
        only_by_place,
        by_name,
        needed,
        bool(code.co_flags & inspect.CO_VARKEYWORDS),
    )


def _missing(kind: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    *others, last = map(repr, names)
    listed = f"{', '.join(others)}{',' * (len(others) > 1)} and {last}" if others else last
    return f"missing {len(names)} required {kind} argument{'s' * bool(others)}: {listed}"
