"""Shell completion: names of plugins, and of the implementations that they offer.

Each function is the `shell_complete` of an argument or option. If plugins can't be discovered, there are no
completions, because a shell can't show an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

from kernel.plugins import PluginManager
from kernel_spec.errors import KernelError

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def one_of(names: Iterable[str]) -> Complete:
    """Return a completion of these names."""
    return lambda context, parameter, begun: _begun(names, begun)


def offered(kind: str) -> Complete:
    """Return a completion of the names that plugins offer of a kind, such as schedulers."""
    return lambda context, parameter, begun: _begun(_names(lambda manager: manager.offered(kind)), begun)


def plugin(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Complete the name of an installed plugin."""
    return _begun(_names(lambda manager: [info.name for info in manager.plugins()]), begun)


def _names(read: Callable[[PluginManager], Iterable[str]]) -> Iterable[str]:
    try:
        return read(PluginManager.discover())
    except KernelError:
        return ()


def _begun(names: Iterable[str], begun: str) -> list[str]:
    return [name for name in names if name.startswith(begun)]
