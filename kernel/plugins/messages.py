"""The texts of plugin errors: what happened, to which named thing, what was expected, what to do next."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kernel.installing import install_command
from kernel.plugin_faults import lines_of, summary
from kernel.plugins.kinds import OFFICIAL, PluginKind
from kernel.plugins.selection import Selection, nearest


def not_found(
    kind: PluginKind, selection: Selection, name: str, offered: Collection[str], problems: Mapping[str, Exception]
) -> str:
    """Nothing of that kind and name is installed."""
    installed = ", ".join(sorted(offered)) or "none"
    text = f"there is no {kind.title} named {name!r} ({_origin(selection)}){nearest(name, offered)}; "
    text += f"installed: {installed}."
    extra = OFFICIAL.get((kind.name, name))
    if extra:
        text += f" To get it: {install_command(extra)}"
    else:
        text += f" To get it, install a plugin that offers it; `kernel plugins new {kind.name} {name}` starts one"
    if problems:
        text += f". These plugins are broken and might have offered it: {', '.join(sorted(problems))}"
    return text


def probable_plugin(kind: PluginKind, name: str, problems: Mapping[str, Exception]) -> str:
    """Return the broken plugin that probably offers `name`, judging by its own name, or an empty string."""
    official = OFFICIAL.get((kind.name, name))
    if official in problems:
        return official or ""
    fitting = [plugin for plugin in problems if plugin == name or plugin.replace("-", "_").endswith(f"_{name}")]
    return fitting[0] if len(fitting) == 1 else ""


def broken(plugin: str, error: Exception) -> str:
    """A required plugin is broken."""
    return (
        f"the plugin {plugin!r} was asked for but is broken: {summary(error)}. "
        f"Repair it, or ask for other plugins; `kernel plugins info {plugin}` shows more{lines_of(error)}"
    )


def skipped(plugin: str, error: BaseException) -> str:
    """A plugin is installed, but could not be loaded."""
    return (
        f"the installed plugin {plugin!r} could not be loaded and is left out: {summary(error)}; "
        f"repair or uninstall it (`kernel plugins info {plugin}` shows more){lines_of(error)}"
    )


def not_made(kind: PluginKind, name: str, plugin: str, error: Exception) -> str:
    """The factory of an implementation raised."""
    return (
        f"the {kind.title} {name!r} of the plugin {plugin!r} could not be made: its factory, which {kind.hook} "
        f"returned, raised {summary(error)}{lines_of(error)}"
    )


def not_of_the_contract(kind: PluginKind, what: str, thing: object, missing: Sequence[str]) -> str:
    """An implementation of a plugin lacks methods or attributes of its contract."""
    return f"{what} is no {kind.title}: {thing!r} lacks {', '.join(missing)} (see kernel_spec.{kind.contract})"


def broken_selected(kind: PluginKind, selection: Selection, name: str, plugin: str, error: Exception) -> str:
    """The selected implementation comes from a broken plugin."""
    return (
        f"the {kind.title} {name!r} ({_origin(selection)}) comes from the plugin {plugin!r}, which is broken: "
        f"{summary(error)}. Repair the plugin or select another {kind.title}{lines_of(error)}"
    )


def same_offer(kind: PluginKind, name: str, plugins: Sequence[str]) -> str:
    """Two plugins offer the same name."""
    return (
        f"the {kind.title} {name!r} is offered by {_listed(plugins)}: a name must have one owner. "
        f"Uninstall one of them, or leave one out of KERNEL_PLUGINS"
    )


def same_resource(resource: str, plugin: str, other: str) -> str:
    """Two plugins detect the same devices."""
    return (
        f"the accelerator resource {resource!r} is offered by {_listed([plugin, other])}: a resource must have one "
        f"owner. Uninstall one of them, or leave one out of KERNEL_PLUGINS"
    )


def same_plugin_name(name: str, target: str, rival: str) -> str:
    """Two distributions have a plugin of the same name."""
    return (
        f"two plugins are called {name!r}: {target} and {rival}. A plugin's name (its entry point in the group "
        f"kernel.plugins) must be its own; uninstall one of them"
    )


def plugin_not_installed(name: str, installed: Collection[str]) -> str:
    """A plugin that KERNEL_PLUGINS (or `only`) names is not installed."""
    listed = ", ".join(sorted(installed)) or "none"
    text = f"there is no plugin named {name!r}{nearest(name, installed)}; installed: {listed}."
    if name in OFFICIAL.values():
        text += f" To get it: {install_command(name)}"
    return text


def _origin(selection: Selection) -> str:
    return "the default" if selection.is_default else f"selected by {selection.source}"


def _listed(plugins: Sequence[str]) -> str:
    return " and ".join(f"the plugin {plugin!r}" for plugin in plugins)
