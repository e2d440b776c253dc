"""Read how a cluster is to be scaled: the provider, the limits, and what is said of its kinds of machines."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import field, fields, replace
from pathlib import Path
from typing import Any

from kernel_autoscaler.core.kinds import Kind
from kernel_autoscaler.core.settings import Settings
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError
from kernel_spec.nearest import nearest
from kernel_spec.providers import DescribesKinds, KindDetails, NodeProvider, takes_token
from kernel_spec.resources import amounts

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]

_TOP = ("provider", "provider_options", "settings", "kinds", "name")
_SETTINGS = tuple(one.name for one in fields(Settings) if one.name not in ("repeats", "devices"))
_OF_KIND = ("minimum", "maximum", "price", "boot_seconds")


@dataclass(frozen=True, slots=True)
class Configuration:
    """What was configured. `kinds` has, by name, what is said of a kind beside what its provider says."""

    provider: str
    provider_options: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    kinds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    name: str = "kernel"


def read_configuration(given: Mapping[str, Any] | str | Path) -> Configuration:
    """Return a configuration, given as a mapping or as a TOML file. Raises OptionError for what is wrong in it."""
    if isinstance(given, Mapping):
        return _checked(given, "the configuration of the autoscaler")
    return _checked(read_toml(Path(given)), str(given))


def read_toml(file: Path) -> dict[str, Any]:
    """Return what is in a TOML file. Raises OptionError, which names the file, where it can't be read."""
    try:
        found: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise OptionError(f"{file} can't be read: {error}") from None
    return found


def kinds_of(configuration: Configuration, provider: NodeProvider) -> list[Kind]:
    """Return the kinds of a provider, with what is configured of them. Raises OptionError for one that it has not."""
    offered = provider.kinds()
    _check_names(configuration.kinds, tuple(offered), f"a kind of the node provider {provider.name!r}")
    found = []
    for name, resources in offered.items():
        details = provider.describe(name) if isinstance(provider, DescribesKinds) else KindDetails()
        kind = Kind(
            name, amounts(resources), details.labels, details.price, details.spot, details.zone, details.boot_seconds
        )
        found.append(replace(kind, **configuration.kinds.get(name, {})))
    return found


def settings_of(configuration: Configuration, provider: NodeProvider) -> Settings:
    """Return the settings for a provider."""
    return replace(configuration.settings, repeats=takes_token(provider))


def _checked(given: Mapping[str, Any], where: str) -> Configuration:
    _check_names(given, _TOP, f"a part of {where}")
    if not isinstance(given.get("provider"), str):
        raise OptionError(f'{where} must name a node provider: provider = "loopback", for one on this machine')
    settings, kinds = given.get("settings", {}), given.get("kinds", {})
    _check_names(settings, _SETTINGS, f"a setting in {where}")
    for name, said in kinds.items():
        _check_names(said, _OF_KIND, f"a setting of kind {name!r} in {where}")
    for name, value in [*settings.items(), *(pair for said in kinds.values() for pair in said.items())]:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise OptionError(f"{name} in {where} must be a number, zero or more, not {value!r}")
    return Configuration(
        given["provider"],
        dict(given.get("provider_options", {})),
        Settings(**settings),
        {name: dict(said) for name, said in kinds.items()},
        str(given.get("name", "kernel")),
    )


def _check_names(given: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for name in given:
        if name not in known:
            near = nearest(name, known)
            hint = f"; did you mean {near!r}?" if near else ""
            raise OptionError(f"{name!r} is not {what}, which are {', '.join(known)}{hint}")
