"""Find engines, networks and control planes by their entry points, because they are opened before plugins load."""

from __future__ import annotations

from collections.abc import Collection

from kernel.entry_points import entry_points
from kernel.plugins.selection import nearest
from kernel_spec.errors import ContractError, PluginNotFoundError


def target_named(group: str, title: str, name: str, own: Collection[str], variable: str) -> str:
    """Return "module:attribute" of the entry point `name` in a group.

    `title` is its kind for messages, as "engine"; `own` are the names of the kernel's own ones, which no other
    distribution can offer; `variable` is the environment variable that chose it. Raises PluginNotFoundError when no
    entry point of that name is installed, ContractError when several are.
    """
    installed = [(other, target) for other, target in entry_points(group) if other not in own]
    targets = [target for other, target in installed if other == name]
    if len(targets) > 1:
        raise ContractError(
            f"several {title}s named {name!r} are installed: {', '.join(targets)}; uninstall all but one"
        )
    if not targets:
        names = sorted({*own, *(other for other, _ in installed)})
        raise PluginNotFoundError(
            f"there is no {title} named {name!r} ({variable}){nearest(name, names)}; there are {', '.join(names)}"
        )
    return targets[0]
