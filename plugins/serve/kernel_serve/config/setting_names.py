"""Names in configuration files besides those of the settings: other names, and names that are refused with a reason.

Serve itself refuses settings that belong to another part of the file. Other distributions can add names by an entry
point in the group `kernel_serve.setting_names`, which leads to a `SettingNames`. With `kernel-compat-ray`, for example,
files that were written for Ray Serve can be read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any

from kernel_serve.installed import load_installed
from kernel_spec.dataclass import dataclass

GROUP = "kernel_serve.setting_names"

Names = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class SettingNames:
    """Other names of settings, and names that are refused.

    Parts of a configuration are "file", "http_options", "application", "deployment", "autoscaling_config", "endpoint"
    and "target". `aliases` maps a part to (other name: name), `refused` maps a part to (name: the reason).
    `autoscaling` translates the settings of an `autoscaling_config`, and raises ValueError for those that it can't
    translate; `autoscaling_names` are settings that it alone knows.
    """

    aliases: Names = field(default_factory=dict)
    refused: Names = field(default_factory=dict)
    autoscaling_names: tuple[str, ...] = ()
    autoscaling: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict

    def aliases_of(self, part: str) -> Mapping[str, str]:
        """Return the other names of settings of a part."""
        return self.aliases.get(part, {})

    def refused_in(self, part: str) -> Mapping[str, str]:
        """Return the names that can't be given in a part, with the reason."""
        return self.refused.get(part, {})


_IN_FILE = "it belongs to an application, in the list below `applications:`"
_AT_THE_TOP = "it belongs below http_options, at the top of the file"
_IN_DEPLOYMENT = "it belongs to a deployment, in the list below `deployments:`"
_IN_CODE = "arguments are given in the code, by bind(), or by `args` of the application"

OWN = SettingNames(
    aliases={"target": {"app": "application", "share": "weight"}},
    refused={
        "file": {
            "host": "it belongs below http_options",
            "port": "it belongs below http_options",
            "import_path": "it belongs to an application: begin with `applications:`, a list",
            "route_prefix": _IN_FILE,
            "runtime_env": _IN_FILE,
            "deployments": "they belong to an application, in the list below `applications:`",
        },
        "http_options": {
            "location": "it is called proxy_location, and belongs to the top of the file",
            "middlewares": "middlewares are Python objects: give them to serve.start(http_options=...)",
        },
        "application": {
            "host": _AT_THE_TOP,
            "port": _AT_THE_TOP,
            "num_replicas": _IN_DEPLOYMENT,
            "autoscaling_config": _IN_DEPLOYMENT,
        },
        "deployment": {
            "route_prefix": "it belongs to the application",
            "init_args": _IN_CODE,
            "init_kwargs": _IN_CODE,
            "version": "versions follow from the code and the settings",
        },
    },
)
"""The names that Serve itself knows."""


@functools.cache
def known_names() -> SettingNames:
    """Return Serve's own names and those of installed distributions. Warn of an entry point that can't be loaded."""
    return combined([OWN, *load_installed(GROUP, "other names of settings are not known")])


def combined(several: Iterable[SettingNames]) -> SettingNames:
    """Return all of these names in one; each `autoscaling` translates what the ones before it returned."""
    aliases: dict[str, dict[str, str]] = {}
    refused: dict[str, dict[str, str]] = {}
    names = list(several)
    for each in names:
        for part, table in each.aliases.items():
            aliases.setdefault(part, {}).update(table)
        for part, table in each.refused.items():
            refused.setdefault(part, {}).update(table)

    def translate(given: Mapping[str, Any]) -> Mapping[str, Any]:
        for each in names:
            given = each.autoscaling(given)
        return given

    return SettingNames(aliases, refused, tuple(name for each in names for name in each.autoscaling_names), translate)
