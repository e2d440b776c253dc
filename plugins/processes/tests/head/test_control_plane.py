"""How a head finds the control plane that is installed, and what it says when there is none."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.installing import install_command
from kernel.testing.faults import wait_until
from kernel_processes.head.control_plane import control_plane_of, find_control_plane
from kernel_processes.head.socket_activation import SocketActivation
from kernel_processes.protocol.head_sockets import control_plane_socket
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import ContractError, PluginNotFoundError

MISSING = f"no control plane is installed: {install_command('control_grpc')}"


def install(monkeypatch: pytest.MonkeyPatch, *found: tuple[str, str]) -> None:
    """Let these be the entry points of control planes."""
    monkeypatch.setattr("kernel.entry_points.entry_points", lambda group: {"kernel.control_planes": list(found)}[group])


def test_the_one_that_is_installed_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ("mine", "os.path:join"))
    assert find_control_plane() is os.path.join  # type: ignore[comparison-overlap]


def test_without_one_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    with pytest.raises(PluginNotFoundError) as raised:
        find_control_plane()
    assert str(raised.value) == MISSING and "[control_grpc]" in MISSING


def test_of_two_none_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ("one", "a:A"), ("two", "b:B"))
    with pytest.raises(ContractError) as raised:
        find_control_plane()
    assert str(raised.value) == "several control planes are installed: one (a:A), two (b:B); uninstall all but one"


@pytest.mark.parametrize(
    ("found", "said"),
    [((), MISSING), ((("mine", "nobody_has_this:A"),), "ModuleNotFoundError: No module named 'nobody_has_this'")],
)
def test_who_asks_a_head_without_one_is_let_go_and_the_log_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: Any, said: str
) -> None:
    install(monkeypatch, *found)
    (tmp_path / "sockets").mkdir()
    logged: list[tuple[str, str]] = []
    reactor = Reactor()
    log: Any = SimpleNamespace(error=lambda text, reason: logged.append((text, reason)))
    head: Any = None
    activation = SocketActivation(control_plane_of(head, bytes(32), None), str(tmp_path), reactor, log)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(control_plane_socket(str(tmp_path)))

        def turned() -> bool:
            reactor.poll(0.01)
            return bool(logged)

        wait_until(turned, 120.0, "a line in the log")
        assert logged == [("the control plane can't be served", said)]
        with pytest.raises(ConnectionError):
            client.send(b"is anybody there?")
            client.recv(1)
    assert os.listdir(tmp_path / "sockets") == []
    activation.close(reactor.poll)
    reactor.close()
