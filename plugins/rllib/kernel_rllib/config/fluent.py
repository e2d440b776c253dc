"""Methods that set settings and return the config, so that calls can be chained.

A fluent method is a signature and nothing else: editors show it, and what is given is set by the arguments' names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kernel_rllib.config.name_table import Conversion
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings import Origin
from kernel_rllib.errors import UnknownSettingError
from kernel_rllib.nearest import did_you_mean

Method = TypeVar("Method", bound=Callable[..., Any])


def fluent(**keys: str) -> Callable[[Method], Method]:
    """Make a method set what it is given.

    Args:
        keys: Settings for arguments that are called otherwise: `on_episode_end="callbacks_on_episode_end"`.

    Returns:
        A decorator. Beside its own arguments the method takes older names of its section, and, where it replaces that
        of a base class, what that takes.
    """

    def decorate(method: Method) -> Method:
        code = method.__code__  # type: ignore[attr-defined]
        positional = code.co_varnames[1 : code.co_argcount]
        names = frozenset(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])
        called = method.__name__

        @functools.wraps(method)
        def call(self: Any, *arguments: Any, **given: Any) -> Any:
            if len(arguments) > len(positional):
                raise TypeError(
                    f"{type(self).__name__}.{called}() takes {len(positional)} arguments by place, but "
                    f"{len(arguments)} were given; give settings by their names"
                )
            for name, value in zip(positional, arguments, strict=False):
                if name in given:
                    raise TypeError(f"{type(self).__name__}.{called}() got two values for {name!r}")
                given[name] = value
            for name in given:
                if name not in names and not _is_taken(self, called, name):
                    raise _unknown(self, called, name, names)
            said = {keys.get(name, name): value for name, value in given.items() if value is not NOT_PROVIDED}
            self._change(said, Origin(f".{called}()"), keep_unknown=False)
            return self

        call.accepts = names  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


def section_of(settings: Any, name: str) -> str | None:
    """Return the fluent method that a name of a setting, of any generation, belongs to."""
    kind = type(settings)
    row = kind.names.find(name)
    if row is None:
        return None
    paths = row.covers if isinstance(row, Conversion) else (row.path,)
    return str(kind.fields[paths[0][0]].section) if paths else "training"


def _is_taken(settings: Any, called: str, name: str) -> bool:
    if section_of(settings, name) == called or name in settings._extras:
        return True
    return any(name in getattr(vars(base).get(called), "accepts", ()) for base in type(settings).__mro__)


def _unknown(settings: Any, called: str, name: str, names: frozenset[str]) -> UnknownSettingError:
    elsewhere, gone = section_of(settings, name), type(settings).gone.get(name)
    if elsewhere is not None:
        hint = f"; it is an argument of .{elsewhere}()"
    elif gone is not None:
        hint = f"; {gone}"
    else:
        hint = did_you_mean(name, [*names, *_keys_of_section(type(settings), called)])
    return UnknownSettingError(f"{type(settings).__name__}.{called}() has no argument {name!r}{hint}")


def _keys_of_section(kind: Any, section: str) -> list[str]:
    fields: Mapping[str, Any] = kind.fields
    return [name for name, field in fields.items() if field.section == section]
