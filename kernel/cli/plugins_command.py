"""`kernel plugins`: list plugins, show one, check one against its contract, and write a new one."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable, Mapping
from typing import Any

import click

from kernel import mounts
from kernel.cli import completion, display
from kernel.cli.contract_rows import ContractRow, Offer, contract_rows
from kernel.commands import CommandGroup, Refusal, load_command, unknown
from kernel.entry_points import distribution_of
from kernel.plugins import KINDS, PluginInfo, PluginManager
from kernel_spec.errors import KernelError
from kernel_spec.hooks import LIBRARY_GROUP, PLUGIN_GROUP
from kernel_spec.version import __version__

BUILT_IN = "built in"


AUTHORS: Mapping[str, tuple[str, str]] = {
    "check": ("kernel_conformance.cli.check_command:check", "Try a plugin against the conformance suites."),
    "new": ("kernel_conformance.cli.new_command:new", "Write a plugin, with a test that passes."),
}
"""The commands for those who write plugins: module and attribute, and the line in `kernel plugins --help`."""


class PluginsGroup(CommandGroup):
    """The group of commands, including those for authors, which are in kernel-conformance."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *AUTHORS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return a command, or None. Raises Refusal when the distribution that brings it is not installed."""
        if name not in AUTHORS:
            return super().get_command(ctx, name)
        return load_command(AUTHORS[name][0], f"kernel plugins {name}", "conformance")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing those for authors."""
        own = [(name, command.get_short_help_str(70)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl([*own, *((name, line) for name, (_, line) in AUTHORS.items())])


@click.group("plugins", cls=PluginsGroup)
def plugins() -> None:
    """See, check and write plugins.

    \b
    Examples:
      kernel plugins list
      kernel plugins info scheduler_fifo
      kernel plugins check scheduler_fifo
      kernel plugins new scheduler priority
    """


# -- list ----------------------------------------------------------------------------------------------------------


@plugins.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def list_command(as_json: bool) -> None:
    """Show the installed plugins, who fills each contract and who chose that, and the installed libraries.

    A selected name has a star; a broken plugin says why.
    """
    manager = discover()
    rows = [_described(info) for info in manager.plugins()]
    contracts = list(contract_rows(manager, os.environ))
    libraries = _libraries()
    if as_json:
        shown = [_contract_as_json(row) for row in contracts]
        display.echo_json({"plugins": rows, "contracts": shown, "selected": _selected(manager), "libraries": libraries})
        return
    chosen = {(kind, name) for kind, row in _selected(manager).items() for name in row["names"]}
    lines = [(row["name"], row["version"] or "?", _offer_text(row, chosen)) for row in rows]
    display.table(("PLUGIN", "VERSION", "OFFERS"), lines, cut=False)
    click.echo()
    heads = ("CONTRACT", "FILLED BY", "CHOSEN BY", "ALSO INSTALLED")
    display.table(heads, [_contract_line(row) for row in contracts], cut=False)
    if libraries:
        click.echo()
        display.table(
            ("LIBRARY", "VERSION", "PACKAGE"),
            [(f"kernel.{row['name']}", row["version"] or "?", row["package"]) for row in libraries],
            cut=False,
        )


def _offer_text(row: Mapping[str, Any], chosen: Iterable[tuple[str, str]]) -> str:
    """Return one line on what a plugin offers, with contract versions and stars, or on why it is broken."""
    if row["problem"]:
        return f"{click.style('broken:', fg='red')} {row['problem'].splitlines()[0]}"
    texts = []
    for kind in KINDS.values():
        names = row["offers"].get(kind.name, ())
        if names or kind.hook in row["hooks"]:
            stars = [name + ("*" if (kind.name, name) in chosen else "") for name in names]
            texts.append(" ".join([f"{kind.name}/{row['contracts'].get(kind.name, '?')}", *stars]))
    return ", ".join(texts)


def _contract_line(row: ContractRow) -> tuple[str, str, str, str]:
    filled = _offers_text(row.filled_by)
    if row.missing:
        missing = click.style(f"(not installed: {', '.join(row.missing)})", fg="red")
        filled = f"{filled} {missing}".strip()
    return row.contract, filled or "-", row.chosen_by, _offers_text(row.others)


def _offers_text(offers: Iterable[Offer]) -> str:
    """Return names, those of one plugin together with it: `env_vars working_dir (local), pip (environment_pip)`."""
    origins: dict[str, list[str]] = {}
    for offer in offers:
        origins.setdefault(offer.origin, []).append(offer.name)
    texts = (
        " ".join(names) + (f" ({origin})" if origin and names != [origin] else "") for origin, names in origins.items()
    )
    return ", ".join(texts)


def _contract_as_json(row: ContractRow) -> dict[str, Any]:
    return {
        "contract": row.contract,
        "filled_by": [offer._asdict() for offer in row.filled_by],
        "chosen_by": row.chosen_by,
        "also_installed": [offer._asdict() for offer in row.others],
        "missing": list(row.missing),
    }


# -- info ----------------------------------------------------------------------------------------------------------


@plugins.command("info")
@click.argument("name", shell_complete=completion.plugin)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def info_command(name: str, as_json: bool) -> None:
    """Show everything about the plugin NAME; for a broken one, where it broke.

    Example: kernel plugins info scheduler_fifo
    """
    manager = discover()
    info = find(manager, name)
    row = _described(info)
    if as_json:
        display.echo_json(row)
        return
    contracts = ", ".join(f"{contract} {version}" for contract, version in row["contracts"].items())
    offers = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in row["offers"].items())
    shown = {
        "name": row["name"],
        "distribution": f"{row['distribution']} {row['version']}".strip() or "none found",
        "entry point": row["target"],
        "contracts": contracts,
        "hooks": ", ".join(row["hooks"]),
        "offers": offers,
        "problem": row["problem"],
    }
    for label, text in shown.items():
        if text:
            click.echo(f"{label + ':':<14}{text}")
    if name in manager.problems:
        click.echo()
        click.echo("".join(traceback.format_exception(manager.problems[name])).rstrip())


# -- shared --------------------------------------------------------------------------------------------------------


def discover() -> PluginManager:
    """Discover all plugins; a bad configuration is answered in one line."""
    try:
        return PluginManager.discover()
    except KernelError as error:
        raise Refusal(str(error)) from error


def find(manager: PluginManager, name: str) -> PluginInfo:
    """Return the facts about the plugin `name`. Raises Refusal when it is not installed."""
    infos = {info.name: info for info in manager.plugins()}
    if name not in infos:
        owners = [plugin for kind in KINDS for plugin in manager.offered(kind).get(name, ())]
        if owners:
            raise Refusal(
                f"there is no plugin {name!r}, did you mean {owners[0]!r}, which offers something of that name?"
            )
        raise unknown(f"plugin {name!r}", name, infos)
    return infos[name]


def _described(info: PluginInfo) -> dict[str, Any]:
    """Return everything known about a plugin, for JSON."""
    built_in = info.target.startswith("kernel.")
    distribution, version = (
        (BUILT_IN, __version__) if built_in else distribution_of(PLUGIN_GROUP, info.name, info.target)
    )
    return {
        "name": info.name,
        "distribution": distribution,
        "version": version,
        "target": info.target,
        "contracts": dict(info.contracts),
        "hooks": list(info.hooks),
        "offers": {kind: list(names) for kind, names in info.offers.items()},
        "problem": info.problem,
    }


def _selected(manager: PluginManager) -> dict[str, dict[str, Any]]:
    """Return what is selected of each kind, who said so, and what of it is not installed."""
    rows = {}
    for kind in KINDS.values():
        if kind.environment:
            selection, offered = manager.selection(kind.name), manager.offered(kind.name)
            missing = [name for name in selection.names if name not in offered]
            rows[kind.name] = {"names": list(selection.names), "source": selection.source, "missing": missing}
    return rows


def _libraries() -> list[dict[str, str]]:
    return [
        {"name": name, "package": package, "version": distribution_of(LIBRARY_GROUP, name, package)[1]}
        for name, packages in mounts.libraries().items()
        for package in packages
    ]
