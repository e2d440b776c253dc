"""The options of implementations: from arguments, then the environment, then the configuration file.

The options of an implementation are the keyword-only arguments of its factory. Everything here is pure.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kernel.plugins.kinds import PluginKind
from kernel.plugins.selection import Config, nearest
from kernel_spec.errors import OptionError

VARIABLE = "KERNEL_OPTION_"
"""The prefix of environment variables: KERNEL_OPTION_REDIS_URL is the option `url` of `redis`."""

ARGUMENT = "plugin_options"
Options = Mapping[str, Mapping[str, Any]]
_TRUTH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}


class PluginOptions:
    """The options that each source gives, by the name of the implementation. Raises OptionError for a bad shape."""

    def __init__(
        self,
        argument: Options | None = None,
        environment: Mapping[str, str] | None = None,
        config: Config | None = None,
    ) -> None:
        self._argument = _checked(argument or {}, ARGUMENT)
        self._environment = environment or {}
        self._file_name = f"file {config.path} [options]" if config is not None else ""
        self._file = _checked(config.options, self._file_name) if config is not None else {}

    def check_names(self, offered: Collection[str]) -> None:
        """Raise OptionError when the argument is for an implementation that no plugin offers."""
        for name in self._argument:
            if name not in offered:
                raise OptionError(
                    f"{ARGUMENT}: no installed plugin offers anything named {name!r}{nearest(name, offered)}"
                )

    def of(self, name: str) -> dict[str, tuple[Any, str]]:
        """Return the options of the implementation `name`: each with its value and the source, for messages."""
        given = {option: (value, self._file_name) for option, value in self._file.get(name, {}).items()}
        prefix = f"{VARIABLE}{''.join(c if c.isalnum() else '_' for c in name)}_".upper()
        for variable, text in self._environment.items():
            if variable.startswith(prefix):
                given[variable.removeprefix(prefix).lower()] = (text, f"environment {variable}")
        given |= {option: (value, ARGUMENT) for option, value in self._argument.get(name, {}).items()}
        return given

    def bind(self, kind: PluginKind, name: str, factory: Callable[..., Any]) -> Callable[..., Any]:
        """Return `factory` with its options filled in. Raises as `values`."""
        values = self.values(kind, name, factory)
        return functools.partial(factory, **values) if values else factory

    def values(self, kind: PluginKind, name: str, factory: Callable[..., Any]) -> dict[str, Any]:
        """Return the options that were given for the implementation `name`, of the types of its defaults.

        Raises OptionError for an option that it does not take, and for a value of another type than its default's. A
        value may be a secret: no message shows one.
        """
        given = self.of(name)
        if not given:
            return {}
        parameters = inspect.signature(factory).parameters.values()
        accepted = {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}
        values = {}
        for option, (value, source) in given.items():
            if option not in accepted:
                has = f"it has {', '.join(accepted)}" if accepted else "it has none"
                raise OptionError(
                    f"{source}: the {kind.title} {name!r} has no option {option!r}{nearest(option, accepted)}; {has}"
                )
            whose = f"{source}: the option {option!r} of the {kind.title} {name!r}"
            values[option] = _fitting(whose, value, accepted[option], source.startswith("environment"))
        return values


def _checked(options: Options, source: str) -> Options:
    fits = isinstance(options, Mapping) and all(
        isinstance(name, str) and isinstance(each, Mapping) and all(isinstance(option, str) for option in each)
        for name, each in options.items()
    )
    if not fits:
        raise OptionError(
            f"{source}: options are given by the name of the implementation and the name of the option, "
            f'such as {{"sqlite": {{"lock_seconds": 5}}}}'
        )
    return options


def _fitting(whose: str, value: Any, default: Any, is_text: bool) -> Any:
    """Return `value` as the type of `default`; None there stands for text."""
    wanted = "text"
    if isinstance(default, bool):
        wanted = "true or false"
        value = _TRUTH.get(value.lower()) if is_text else value
        if isinstance(value, bool):
            return value
    elif isinstance(default, (int, float)):
        wanted = "a whole number" if isinstance(default, int) else "a number"
        kind = type(default)
        try:
            if is_text or (isinstance(value, (int, float)) and not isinstance(value, bool) and kind(value) == value):
                return kind(value)
        except ValueError:
            pass
    elif isinstance(default, Mapping):
        wanted = "a mapping (in the environment: JSON)" if is_text else "a mapping"
        try:
            value = json.loads(value) if is_text else value
        except ValueError:
            value = None
        if isinstance(value, Mapping):
            return value
    elif isinstance(value, str):
        return value
    raise OptionError(f"{whose} must be {wanted}")
