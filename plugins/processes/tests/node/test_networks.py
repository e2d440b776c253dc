"""Which network a node is reached by, how it is found, and what it is opened with."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from types import SimpleNamespace

import pytest

from kernel.installing import install_command
from kernel_processes.node import networks
from kernel_processes.node.networks import OWN, find_network, network_name, network_settings, usable_tls
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.transport.networks import load_network
from kernel_spec.errors import ContractError, OptionError, PluginError, PluginNotFoundError
from kernel_spec.hooks import NETWORK_GROUP
from kernel_spec.networks import NetworkSettings
from kernel_spec.tls_files import TlsFiles

MODULE = "network_of_this_test"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The entry points of networks, besides the one of TCP."""
    found: list[tuple[str, str]] = []
    monkeypatch.setattr("kernel.plugins.installed_target.entry_points", lambda group: [*found, ("tcp", OWN)])
    return found


def test_the_environment_chooses_and_else_it_is_tcp() -> None:
    assert network_name({"KERNEL_NETWORK": " mine "}) == "mine"
    assert network_name({"KERNEL_NETWORK": ""}) == network_name({}) == "tcp"


def test_tcp_is_found_without_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("kernel.plugins.installed_target.entry_points")
    assert find_network("tcp") == OWN
    assert type(load_network(OWN)).__name__ == "TcpNetwork"


def test_tcp_has_an_entry_point_too() -> None:
    assert ("tcp", OWN) in {(point.name, point.value) for point in entry_points(group=NETWORK_GROUP)}


def test_without_tcp_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kernel_network_tcp.network", None)
    monkeypatch.setattr(networks, "OWN", "kernel_network_absent.network:network")
    with pytest.raises(PluginNotFoundError) as caught:
        find_network("tcp")
    command = install_command("network_tcp")
    assert "[network_tcp]" in command and str(caught.value) == (
        "a node that works with other machines, and a program that joins a cluster, need the network 'tcp', which is "
        f"not installed: {command}"
    )


def test_a_broken_tcp_is_not_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kernel_network_tcp.network", None)
    with pytest.raises(ModuleNotFoundError, match="import of kernel_network_tcp"):
        find_network("tcp")


def test_a_network_that_is_installed_is_opened_by_its_name(
    installed: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = object()
    installed.append(("mine", f"{MODULE}:network"))
    monkeypatch.setitem(sys.modules, MODULE, SimpleNamespace(network=network))  # type: ignore[arg-type]
    assert find_network("mine") == f"{MODULE}:network"
    assert load_network(find_network("mine")) is network


def test_a_network_that_nobody_offers(installed: list[tuple[str, str]]) -> None:
    installed.append(("mine", f"{MODULE}:opens"))
    with pytest.raises(PluginNotFoundError) as caught:
        find_network("mind")
    assert str(caught.value) == (
        "there is no network named 'mind' (KERNEL_NETWORK), did you mean 'mine'?; there are mine, off, tcp"
    )


def test_a_network_that_several_offer(installed: list[tuple[str, str]]) -> None:
    installed += [("mine", "one:opens"), ("mine", "other:opens")]
    with pytest.raises(ContractError) as caught:
        find_network("mine")
    assert str(caught.value) == (
        "several networks named 'mine' are installed: one:opens, other:opens; uninstall all but one"
    )


def test_a_network_that_can_not_be_imported(installed: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    installed.append(("mine", f"{MODULE}:opens"))
    monkeypatch.setitem(sys.modules, MODULE, SimpleNamespace(other=1))  # type: ignore[arg-type]
    with pytest.raises(
        PluginError, match=rf"^the network 'mine' \({MODULE}:opens\) can't be imported: AttributeError: "
    ):
        find_network("mine")


def test_a_network_that_is_switched_off_is_not_found() -> None:
    with pytest.raises(OptionError) as caught:
        find_network("off")
    assert str(caught.value) == (
        "a node that works with other machines, and a program that joins a cluster, need a network, and it is switched "
        "off (KERNEL_NETWORK=off): choose 'tcp', or another that is installed"
    )


def test_the_network_that_is_meant_looks_at_the_files_of_tls(
    installed: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[TlsFiles] = []
    installed.append(("mine", f"{MODULE}:network"))
    network = SimpleNamespace(check_tls=seen.append)
    monkeypatch.setitem(sys.modules, MODULE, SimpleNamespace(network=network))  # type: ignore[arg-type]
    assert usable_tls(None, {"KERNEL_NETWORK": "mine"}) is None and seen == []
    assert [usable_tls("/tls", {"KERNEL_NETWORK": "mine"})] == seen == [TlsFiles.of_directory("/tls")]


def test_a_network_is_told_what_the_agent_was_told_of_it() -> None:
    config = AgentConfig("/session", b"token", b"node", ephemeral=False)
    config.listen, config.any_port, config.advertised, config.relay = "a:1", True, "b:2", "c:3"
    assert network_settings(config) == NetworkSettings(
        b"node",
        "/session",
        b"token",
        "a:1",
        True,
        "b:2",
        "c:3",
        None,  # type: ignore[arg-type]
    )
    config.tls = TlsFiles("certificate", "key", "authority")
    assert network_settings(config).tls is config.tls
