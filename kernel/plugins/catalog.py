"""The result of the discovery of plugins, as plain values that other processes inherit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from kernel.plugins.selection import Selection
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One plugin that works. `target` is `module` or `module:attribute`; `offers` is kind to names."""

    name: str
    target: str
    hooks: tuple[str, ...] = ()
    contracts: Mapping[str, int] = field(default_factory=dict)
    offers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every working plugin, and what is selected of each kind. Picklable, and free of plugin objects.

    `options` are those of the implementations that every process uses: name to option to value.
    """

    entries: tuple[CatalogEntry, ...]
    selections: Mapping[str, Selection]
    problems: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """One installed plugin for people. `problem` is empty for one that works."""

    name: str
    target: str
    hooks: tuple[str, ...]
    contracts: Mapping[str, int]
    offers: Mapping[str, tuple[str, ...]]
    problem: str
