"""Select the implementations of a kind: by argument, then environment, then configuration file, then default.

`select` is pure: every source is passed in. `find_config` is the only part that touches the disk.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

from kernel.plugins.kinds import KINDS, PluginKind
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError
from kernel_spec.nearest import nearest as most_like

StrPath = str | os.PathLike[str]

FILE_NAME = "kernel.toml"
CONFIG_VARIABLE = "KERNEL_CONFIG"
TABLE = "plugins"


@dataclass(frozen=True, slots=True)
class Selection:
    """The names chosen for a kind (one for a driver), and the source of the choice for messages."""

    kind: str
    names: tuple[str, ...]
    source: str

    @property
    def is_default(self) -> bool:
        """Whether it is the default, which no source has chosen."""
        return self.source == "default"


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration file: its path, for messages, its `[plugins]` table and its `[options.NAME]` tables."""

    path: str
    plugins: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)


def select(
    kind: PluginKind,
    *,
    argument: str | Sequence[str] | None = None,
    environment: Mapping[str, str],
    config: Config | None = None,
    offered: Collection[str] = (),
) -> Selection:
    """Return the selection for `kind`. `offered` are the names that installed plugins offer, for the default.

    An empty environment variable selects nothing for a named kind and counts as unset for a driver. Names are not
    checked here. Raises OptionError when a source has an invalid name, or several names for a driver.
    """
    if argument is not None:
        return Selection(kind.name, _names(kind, argument, "argument"), "argument")
    variable = kind.environment
    if variable in environment and (environment[variable].strip() or kind.pattern == "named"):
        source = f"environment {variable}"
        return Selection(kind.name, _names(kind, environment[variable], source), source)
    if config is not None and kind.name in config.plugins:
        source = f"file {config.path}"
        return Selection(kind.name, _names(kind, config.plugins[kind.name], source), source)
    if kind.pattern == "named":
        return Selection(kind.name, kind.default, "default")
    preferred = [name for name in kind.default if name in offered] or list(kind.default)
    return Selection(kind.name, tuple(preferred[:1]), "default")


def check_kinds(names: Collection[str], source: str) -> None:
    """Raise OptionError, with the nearest name, when one of `names` is not a kind that can be selected."""
    selectable = [kind.name for kind in KINDS.values() if kind.environment]
    for name in names:
        if name not in selectable:
            raise OptionError(
                f"{source}: there is no selectable plugin kind {name!r}{nearest(name, selectable)}; "
                f"there are {', '.join(selectable)}"
            )


def nearest(name: str, names: Collection[str]) -> str:
    """Return `, did you mean 'x'?` for the closest of `names`, or an empty string."""
    close = most_like(name, names, 0.6)
    return f", did you mean {close!r}?" if close else ""


def find_config(environment: Mapping[str, str], directory: StrPath, home: StrPath) -> Config | None:
    """Read the configuration file: `$KERNEL_CONFIG`, else `kernel.toml` in `directory`, else in `~/.config/kernel`.

    Returns None when there is no file. Raises OptionError when the file of `$KERNEL_CONFIG` can't be read, and when a
    file is not valid TOML or selects plugins of an unknown kind.
    """
    named = environment.get(CONFIG_VARIABLE, "")
    if named:
        if not os.path.isfile(named):
            raise OptionError(f"{CONFIG_VARIABLE}={named}: there is no such file; correct it or unset the variable")
        return read_config(named)
    for path in (os.path.join(directory, FILE_NAME), os.path.join(home, ".config", "kernel", FILE_NAME)):
        if os.path.isfile(path):
            return read_config(path)
    return None


def read_config(path: StrPath) -> Config:
    """Read the configuration file at `path`; raises OptionError, naming it, when it can't be understood."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # type: ignore[import-not-found]

    try:
        with open(path, encoding="utf-8") as file:
            data = tomllib.loads(file.read())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise OptionError(f"{path} can't be read as TOML: {error}") from error
    table = data.get(TABLE, {})
    if not isinstance(table, dict):
        raise OptionError(f'{path}: [plugins] must be a table such as scheduler = "fifo", not {table!r}')
    check_kinds(table, f"{path} [plugins]")
    return Config(str(path), table, data.get("options", {}))


def _names(kind: PluginKind, value: object, source: str) -> tuple[str, ...]:
    """Return the names in `value`: a string (commas separate), or a sequence of strings."""
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(",")]
        names = tuple(part for part in parts if part)
    elif isinstance(value, Sequence) and all(isinstance(part, str) for part in value):
        names = tuple(value)
    else:
        raise OptionError(f"{source}: a {kind.title} is selected by name, not by {value!r}")
    if kind.pattern == "driver" and len(names) != 1:
        said = "several" if names else "an empty name"
        raise OptionError(f"{source}: exactly one {kind.title} can be selected, got {said}: {value!r}")
    return names
