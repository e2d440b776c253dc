"""The rows of `kernel plugins list`: each contract, its implementation and who chose it, and other installed ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kernel.api.engines import OWN, VARIABLE, engine_name
from kernel.entry_points import distribution_of, entry_points
from kernel.plugins import KINDS, PluginKind, PluginManager
from kernel_spec.engines import LOCAL, PROCESSES
from kernel_spec.hooks import CONTROL_PLANE_GROUP, ENGINE_GROUP, NETWORK_GROUP
from kernel_spec.networks import OFF, TCP
from kernel_spec.networks import VARIABLE as NETWORK_VARIABLE

DEFAULT = "default"
BY_FIELD = "the fields of a runtime_env"
ALL = "all are used"
ONE = "the only one"
NONE = "none is installed"


class Offer(NamedTuple):
    """The name of an implementation of a contract, and the plugin or distribution that offers it."""

    name: str
    origin: str


class ContractRow(NamedTuple):
    """The row of a contract in `kernel plugins list`. `missing` are chosen names that are not installed."""

    contract: str
    filled_by: tuple[Offer, ...]
    chosen_by: str
    others: tuple[Offer, ...] = ()
    missing: tuple[str, ...] = ()


def contract_rows(manager: PluginManager, environment: Mapping[str, str]) -> Iterator[ContractRow]:
    """Yield a row for the engine, the network, each kind of plugin, and the control plane."""
    yield _engine(entry_points(ENGINE_GROUP), environment)
    yield _network(entry_points(NETWORK_GROUP), environment)
    for kind in KINDS.values():
        yield _of_kind(manager, kind)
    yield _control_plane(entry_points(CONTROL_PLANE_GROUP))


def _engine(installed: Sequence[tuple[str, str]], environment: Mapping[str, str]) -> ContractRow:
    """Return the row of the engines. As in `kernel.init`, local mode is used if the default is not installed."""
    offers = [
        Offer(name, distribution_of(ENGINE_GROUP, name, target)[0])
        for name, target in installed
        if OWN.get(name, target) == target
    ]
    names = {offer.name for offer in offers}
    chosen, said = engine_name(False, environment), bool(environment.get(VARIABLE, "").strip())
    source = f"environment {VARIABLE}" if said else DEFAULT
    if not said and PROCESSES not in names and LOCAL in names:
        chosen, source = LOCAL, f"{DEFAULT}, as {PROCESSES} is not installed"
    return _chosen("engine", [chosen], source, offers)


def _network(installed: Sequence[tuple[str, str]], environment: Mapping[str, str]) -> ContractRow:
    """Return the row of the networks, one of which a node that works with other machines uses."""
    offers = [Offer(name, distribution_of(NETWORK_GROUP, name, target)[0]) for name, target in installed]
    said = environment.get(NETWORK_VARIABLE, "").strip()
    if said == OFF:
        return ContractRow("network", (), f"none: environment {NETWORK_VARIABLE}", tuple(offers))
    return _chosen("network", [said or TCP], f"environment {NETWORK_VARIABLE}" if said else DEFAULT, offers)


def _of_kind(manager: PluginManager, kind: PluginKind) -> ContractRow:
    if kind.pattern == "hook":
        return ContractRow(kind.name, tuple(_answers(manager, kind)), ALL)
    offers = [Offer(name, plugin) for name, plugins in manager.offered(kind.name).items() for plugin in plugins]
    if not kind.environment:
        return ContractRow(kind.name, tuple(offers), BY_FIELD)
    selection = manager.selection(kind.name)
    return _chosen(kind.name, selection.names, selection.source, offers)


def _answers(manager: PluginManager, kind: PluginKind) -> Iterator[Offer]:
    """Yield the offers of each plugin for a hook whose answers are all used; unnamed ones have the plugin's name."""
    for info in manager.plugins():
        if kind.hook not in info.hooks:
            continue
        try:
            things = manager.offered_by(info.name, kind.name)
        except Exception:  # a plugin's hook may raise anything; `kernel plugins info` shows the error
            things = ()
        for name in dict.fromkeys(_name(kind, thing) or info.name for thing in things):
            yield Offer(name, info.name)


def _name(kind: PluginKind, thing: Any) -> str:
    """Return the resource of an accelerator or the name of a command; "" for other kinds, which have no names."""
    attribute = {"accelerator": "resource", "cli_command": "name"}.get(kind.name, "")
    return str(getattr(thing, attribute, "") or "")


def _control_plane(installed: Sequence[tuple[str, str]]) -> ContractRow:
    offers = [Offer(name, distribution_of(CONTROL_PLANE_GROUP, name, target)[0]) for name, target in installed]
    if len(offers) > 1:  # a head refuses to serve either
        return ContractRow("control_plane", (), "none: uninstall all but one", tuple(offers))
    return ContractRow("control_plane", tuple(offers), ONE if offers else NONE)


def _chosen(contract: str, names: Sequence[str], source: str, offers: Sequence[Offer]) -> ContractRow:
    """Return the row of a contract whose implementations are chosen by name."""
    filled = [offer for name in names for offer in offers if offer.name == name]
    missing = [name for name in names if name not in {offer.name for offer in offers}]
    others = [offer for offer in offers if offer.name not in names]
    return ContractRow(contract, tuple(filled), source, tuple(others), tuple(missing))
