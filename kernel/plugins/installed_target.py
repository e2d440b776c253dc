"""What is found by the name of its entry point alone, because it is opened before any plugin is loaded."""

from __future__ import annotations

from collections.abc import Collection

from kernel.entry_points import entry_points
from kernel.plugins.selection import nearest
from kernel_spec.errors import ContractError, PluginNotFoundError


def target_named(group: str, title: str, name: str, own: Collection[str], variable: str) -> str:
    """Return "module:attribute" of what is installed as `name` in a group of entry points.

    `title` says what it is, as "engine"; `own` are the names of the kernel's own ones, which nobody else can offer;
    `variable` is where it was chosen. Raises PluginNotFoundError when none of that name is installed, ContractError
    when several are.
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
