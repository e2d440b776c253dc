"""Finding plugins, checking them against their contracts, and choosing between what they offer.

`PluginManager` is all that the rest of the kernel needs; `kinds.py` lists what can be chosen, `selection.py` says
whose word counts.
"""

from kernel.plugins.catalog import Catalog, CatalogEntry, PluginInfo
from kernel.plugins.kinds import KINDS, PluginKind
from kernel.plugins.manager import PluginManager
from kernel.plugins.selection import Config, Selection, find_config, select

__all__ = [
    "KINDS",
    "Catalog",
    "CatalogEntry",
    "Config",
    "PluginInfo",
    "PluginKind",
    "PluginManager",
    "Selection",
    "find_config",
    "select",
]
