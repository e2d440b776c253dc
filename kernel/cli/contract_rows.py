"""Every contract, what fills it, who chose that, and what else is installed: for `kernel plugins list`."""

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
    """Something that fills a contract, or could, by its name, and the plugin or the distribution that offers it."""

    name: str
    origin: str


class ContractRow(NamedTuple):
    """What `kernel plugins list` shows of a contract. `missing` are the names that are chosen and not installed."""

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
    """Return the row of the engines. As `kernel.init` does, it takes local mode where the default is missing."""
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
    """Return the row of the networks, of which a node that works with other machines takes one."""
    offers = [Offer(name, distribution_of(NETWORK_GROUP, name, target)[0]) for name, target in installed]
    said = environment.get(NETWORK_VARIABLE, "").strip()
    if said == OFF:
        return ContractRow("network", (), f"nobody: environment {NETWORK_VARIABLE}", tuple(offers))
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
    """Yield what each plugin answers to a hook of which all answers are used; its own name where that has none."""
    for info in manager.plugins():
        if kind.hook not in info.hooks:
            continue
        try:
            things = manager.offered_by(info.name, kind.name)
        except Exception:  # a stranger's hook; `kernel plugins info` shows what it raises
            things = ()
        for name in dict.fromkeys(_name(kind, thing) or info.name for thing in things):
            yield Offer(name, info.name)


def _name(kind: PluginKind, thing: Any) -> str:
    """Return the resource of an accelerator and the name of a command; "" for what is known by its plugin alone."""
    attribute = {"accelerator": "resource", "cli_command": "name"}.get(kind.name, "")
    return str(getattr(thing, attribute, "") or "")


def _control_plane(installed: Sequence[tuple[str, str]]) -> ContractRow:
    offers = [Offer(name, distribution_of(CONTROL_PLANE_GROUP, name, target)[0]) for name, target in installed]
    if len(offers) > 1:  # a head refuses to serve either
        return ContractRow("control_plane", (), "nobody: uninstall all but one", tuple(offers))
    return ContractRow("control_plane", tuple(offers), ONE if offers else NONE)


def _chosen(contract: str, names: Sequence[str], source: str, offers: Sequence[Offer]) -> ContractRow:
    """Return the row of a contract that is filled by what is chosen by name."""
    filled = [offer for name in names for offer in offers if offer.name == name]
    missing = [name for name in names if name not in {offer.name for offer in offers}]
    others = [offer for offer in offers if offer.name not in names]
    return ContractRow(contract, tuple(filled), source, tuple(others), tuple(missing))
