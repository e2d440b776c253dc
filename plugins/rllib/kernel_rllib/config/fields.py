"""A field declares a setting: its default, its type, its range, its unit, and its meaning.

    class PPOConfig(AlgorithmConfig):
        lambda_ = Field(1.0, "How far returns look ahead before the value function takes over.", range=(0, 1))

The declaration is all there is: values are checked when they are set, older names and defaults are understood, and
`explain()`, dicts and fluent methods know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from kernel_rllib.config.generations import Default, Generation, is_between
from kernel_rllib.config.search_spaces import is_search_space
from kernel_rllib.config.value_types import Mismatch, described, fitted, options
from kernel_rllib.errors import ConfigError
from kernel_rllib.nearest import did_you_mean

T = TypeVar("T")


class Field(Generic[T]):
    """A setting, declared in a class of settings."""

    name: str
    section: str
    nested: type[Any] | None = None
    """The class of settings that the value is, where it is one."""

    if not TYPE_CHECKING:
        # `typing` keeps what was made in brackets, and gives it out again for an equal type. Those are equal that list
        # the same alternatives in another order, and so the first import would decide which of them is tried first.
        def __class_getitem__(cls, kind):
            return GenericAlias(cls, kind)

    def __init__(
        self,
        default: T,
        doc: str,
        *,
        older: Mapping[Generation, Any] | None = None,
        old: str | tuple[str, ...] = (),
        range: tuple[float | None, float | None] = (None, None),
        above: float | None = None,
        unit: str = "",
        merge: bool = False,
        convert: Callable[[Any], Any] | None = None,
        check: Callable[[Any], str | None] | None = None,
        infer: Callable[[Any], Any] | None = None,
        plain: Callable[[Any], Any] | None = None,
        since: Generation = "0.8.5",
        until: Generation = "current",
        inert: str = "",
    ) -> None:
        """Declare a setting. Its type is that of the default, or what is in brackets: `Field[int | None](...)`.

        Args:
            default: Its value today, where nobody sets it. Each config gets a copy of its own of a list or a dict.
            doc: Its meaning, in a sentence that ends with a full stop.
            older: The defaults of older generations.
            old: Names that it had in all older generations. A name that it had in one only is in `names.py`.
            range: The least and the greatest number, both allowed. It also holds for each number of a list, and for the
                values, not the timesteps, of a schedule.
            above: The number that values must exceed.
            unit: The unit of numbers, for people: "seconds", "env steps".
            merge: Whether a dict that is given is merged into the one that is there. Assigning replaces it.
            convert: Applied to a value before all checks.
            check: Returns what is wrong with a value that has the type, as the end of a sentence, or None.
            infer: Given the config, returns what an unset (None) value amounts to when it is read.
            plain: Returns a value as it is in dicts, where that is another form.
            since: The first generation whose dicts have it.
            until: The last one. Dicts of others have it only where it was set.
            inert: Why it has no effect here, where it has none.
        """
        self.default = Default(default, older or {})
        self.doc = self.__doc__ = doc
        self.old = (old,) if isinstance(old, str) else old
        self.range = range
        self.above = above
        self.unit = unit
        self.merge = merge
        self.convert = convert
        self.check = check
        self.infer = infer
        self.plain = plain
        self.since = since
        self.until = until
        self.inert = inert

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.section = owner.__dict__.get("section", "training")

    if TYPE_CHECKING:

        @overload
        def __get__(self, settings: None, owner: type) -> Field[T]: ...
        @overload
        def __get__(self, settings: object, owner: type) -> T: ...

    def __get__(self, settings: Any, owner: type) -> Any:
        """Return the value in `settings`, or the declaration itself when it is read from the class."""
        if settings is None:
            return self
        try:
            value = settings.__dict__[self.name]
        except KeyError:
            value = settings._default(self)
        return self.infer(settings) if value is None and self.infer is not None else value

    def __set__(self, settings: Any, value: T) -> None:
        """Check and set the value in `settings`. Raises `ConfigError` or, where that is frozen, `FrozenConfigError`."""
        settings._set_attribute(self, value)

    @property
    def type(self) -> Any:
        """The type of its values, as in annotations."""
        given = getattr(self, "__orig_class__", None)
        return given.__args__[0] if given is not None else type(self.default.current)

    @property
    def expected(self) -> str:
        """The values that are allowed, in words: "a whole number from 1 on (env steps)"."""
        low, high = self.range
        words = described(self.type)
        bounds = ""
        if self.above is not None:
            bounds = f" above {self.above:g}" + (f" and up to {high:g}" if high is not None else "")
        elif low is not None:
            bounds = f" from {low:g} {'on' if high is None else f'to {high:g}'}"
        elif high is not None:
            bounds = f" up to {high:g}"
        if bounds:
            words += f"; numbers{bounds}" if " or " in words else bounds
        return f"{words} ({self.unit})" if self.unit else words

    def accepted(self, value: Any, owner: str) -> Any:
        """Return a value as it is kept. Raises `ConfigError`, beginning with `owner`, where it can't be one of this."""
        if is_search_space(value):
            return value
        if self.convert is not None:
            value = self.convert(value)
        try:
            value = fitted(value, self.type)
        except Mismatch:
            raise self._refusal(value, owner, self._advice(value)) from None
        if (self.range != (None, None) or self.above is not None) and not all(map(self._is_within, _numbers(value))):
            raise self._refusal(value, owner)
        problem = self.check(value) if self.check is not None else None
        if problem:
            raise ConfigError(f"{owner}: {self.name} is {value!r}: {problem}")
        return value

    def is_in(self, generation: Generation) -> bool:
        """Return whether dicts of a generation have it."""
        return is_between(generation, self.since, self.until)

    def _is_within(self, number: float) -> bool:
        low, high = self.range
        return not (
            (low is not None and number < low)
            or (high is not None and number > high)
            or (self.above is not None and number <= self.above)
        )

    def _refusal(self, value: Any, owner: str, advice: str = "") -> ConfigError:
        return ConfigError(f"{owner}: {self.name} is {_shown(value)}, but must be {self.expected}{advice}")

    def _advice(self, value: Any) -> str:
        if not isinstance(value, str):
            return ""
        known = options(self.type)
        if known:
            return did_you_mean(value, known)
        if described(self.type).startswith("a number") and _reads_as_number(value):
            return "; YAML takes a number with an exponent for text unless it has a point and a sign: 5.0e-5"
        return ""

    def __repr__(self) -> str:
        return f"Field({self.name}: {self.expected}, default {self.default.current!r})"


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, (list, tuple)):
        is_schedule = bool(value) and all(isinstance(each, (list, tuple)) and len(each) == 2 for each in value)
        for each in value:
            yield from _numbers(each[1] if is_schedule else each)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def _shown(value: Any, most: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
