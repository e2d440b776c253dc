"""Who fills a contract, who said so, and what else could."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping

import click
import pytest

from kernel.cli import contract_rows as rows
from kernel.cli.contract_rows import ContractRow, Offer
from kernel.plugins import KINDS, PluginManager
from kernel_spec import hookimpl
from kernel_spec.hooks import CONTROL_PLANE_GROUP, ENGINE_GROUP, NETWORK_GROUP

PROCESSES = ("processes", "kernel_processes.session.engine:open_session")
LOCAL = ("local", "kernel_local_mode.engine:open_session")
THREADS = ("threads", "engine_of_threads:open_session")


class Offers:
    """A plugin: two schedulers, devices, commands and an observer without a name."""

    @hookimpl
    def kernel_contracts(self) -> Mapping[str, int]:
        """Return the versions."""
        return {"scheduler": 1, "accelerator": 1, "cli_command": 1, "observer": 1, "serializer": 1, "environment": 1}

    @hookimpl
    def kernel_schedulers(self) -> Mapping[str, type]:
        """Offer two."""
        return {"fifo": object, "lifo": object}

    @hookimpl
    def kernel_serializers(self) -> Mapping[str, type]:
        """Offer two."""
        return {"first": object, "second": object}

    @hookimpl
    def kernel_environments(self) -> Mapping[str, type]:
        """Offer one."""
        return {"conda": object}

    @hookimpl
    def kernel_cli_commands(self) -> list[click.Command]:
        """Offer two."""
        return [click.Command("hello"), click.Command("goodbye")]

    @hookimpl
    def kernel_observers(self) -> list[object]:
        """Fail."""
        raise OSError("out of luck")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[str, str]]]:
    """Return entry points by group, to be changed by tests; each is of the distribution `kernel-NAME`."""
    module = types.ModuleType("contract_rows_plugin")
    module.plugin = Offers()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    points = {
        ENGINE_GROUP: [LOCAL, PROCESSES],
        NETWORK_GROUP: [("tcp", "somewhere:open_network")],
        CONTROL_PLANE_GROUP: [("grpc", "somewhere:Server")],
    }
    monkeypatch.setattr(rows, "entry_points", lambda group: points[group])
    monkeypatch.setattr(rows, "distribution_of", lambda group, name, target: (f"kernel-{name}", "1.0"))
    return points


def shown(environment: Mapping[str, str] | None = None) -> dict[str, ContractRow]:
    manager = PluginManager.discover(environment=environment or {}, installed=[("mine", "contract_rows_plugin:plugin")])
    return {row.contract: row for row in rows.contract_rows(manager, environment or {})}


def test_every_contract_has_a_row(installed: object) -> None:
    assert list(shown()) == ["engine", "network", *KINDS, "control_plane"]


def test_the_default_engine_is_that_of_processes(installed: object) -> None:
    assert shown()["engine"] == ContractRow(
        "engine", (Offer("processes", "kernel-processes"),), "default", (Offer("local", "kernel-local"),)
    )


def test_without_it_local_mode_fills_the_contract(installed: dict[str, list[tuple[str, str]]]) -> None:
    installed[ENGINE_GROUP] = [LOCAL]
    assert shown()["engine"] == ContractRow(
        "engine", (Offer("local", "kernel-local"),), "default, as processes is not installed"
    )


def test_an_engine_that_was_chosen_is_shown_with_who_chose_it(installed: dict[str, list[tuple[str, str]]]) -> None:
    installed[ENGINE_GROUP].append(THREADS)
    row = shown({"KERNEL_ENGINE": "threads"})["engine"]
    assert (row.filled_by, row.chosen_by) == ((Offer("threads", "kernel-threads"),), "environment KERNEL_ENGINE")
    assert [offer.name for offer in row.others] == ["local", "processes"]


def test_an_engine_that_was_chosen_and_is_not_installed_is_missing(installed: object) -> None:
    row = shown({"KERNEL_ENGINE": "threads"})["engine"]
    assert (row.filled_by, row.missing) == ((), ("threads",))


def test_a_stranger_can_not_offer_an_engine_of_our_name(installed: dict[str, list[tuple[str, str]]]) -> None:
    installed[ENGINE_GROUP] = [LOCAL, ("processes", "stranger:open_session")]
    assert shown()["engine"].filled_by == (Offer("local", "kernel-local"),)


def test_the_network_is_that_of_tcp_or_the_one_that_was_chosen(installed: dict[str, list[tuple[str, str]]]) -> None:
    tcp, pigeons = Offer("tcp", "kernel-tcp"), Offer("pigeons", "kernel-pigeons")
    assert shown()["network"] == ContractRow("network", (tcp,), "default")
    installed[NETWORK_GROUP].append(("pigeons", "elsewhere:open_network"))
    chosen = shown({"KERNEL_NETWORK": "pigeons"})["network"]
    assert chosen == ContractRow("network", (pigeons,), "environment KERNEL_NETWORK", (tcp,))
    off = shown({"KERNEL_NETWORK": "off"})["network"]
    assert off == ContractRow("network", (), "none: environment KERNEL_NETWORK", (tcp, pigeons))
    installed[NETWORK_GROUP] = []
    assert shown()["network"] == ContractRow("network", (), "default", missing=("tcp",))


def test_one_of_a_kind_is_chosen_the_others_could_be(installed: object) -> None:
    row = shown({"KERNEL_SCHEDULER": "lifo"})["scheduler"]
    assert (row.filled_by, row.chosen_by) == ((Offer("lifo", "mine"),), "environment KERNEL_SCHEDULER")
    assert row.others == (Offer("local", "local"), Offer("fifo", "mine"))


def test_several_of_a_kind_are_shown_in_the_order_in_which_they_are_used(installed: object) -> None:
    row = shown({"KERNEL_SERIALIZER": "second,third,first"})["serializer"]
    assert row.filled_by == (Offer("second", "mine"), Offer("first", "mine"))
    assert (row.others, row.missing) == ((), ("third",))


def test_fields_of_environments_are_all_used(installed: object) -> None:
    row = shown()["environment"]
    assert row.chosen_by == "the fields of a runtime_env" and row.filled_by[-1] == Offer("conda", "mine")
    assert {offer.name for offer in row.filled_by} == {"env_vars", "working_dir", "py_modules", "conda"}


def test_of_hooks_all_answers_are_used_by_the_names_that_they_have(installed: object) -> None:
    row = shown()["cli_command"]
    assert row == ContractRow("cli_command", (Offer("hello", "mine"), Offer("goodbye", "mine")), "all are used")


def test_a_hook_that_raises_does_not_take_the_list_along(installed: object) -> None:
    assert shown()["observer"] == ContractRow("observer", (), "all are used")


def test_the_control_plane_that_is_installed_is_used(installed: dict[str, list[tuple[str, str]]]) -> None:
    assert shown()["control_plane"] == ContractRow("control_plane", (Offer("grpc", "kernel-grpc"),), "the only one")
    installed[CONTROL_PLANE_GROUP] = []
    assert shown()["control_plane"] == ContractRow("control_plane", (), "none is installed")


def test_of_two_control_planes_none_is_used(installed: dict[str, list[tuple[str, str]]]) -> None:
    installed[CONTROL_PLANE_GROUP].append(("rest", "elsewhere:Server"))
    assert shown()["control_plane"] == ContractRow(
        "control_plane",
        (),
        "none: uninstall all but one",
        (Offer("grpc", "kernel-grpc"), Offer("rest", "kernel-rest")),
    )
