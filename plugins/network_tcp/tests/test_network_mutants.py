"""The conformance suite notices networks that do something wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernel_conformance import network as suite
from kernel_network_tcp.network import TcpNetwork
from kernel_network_tcp.node_links import TcpNodeLinks
from kernel_network_tcp.node_network import TcpNodeNetwork
from kernel_network_tcp.process_network import TcpProcessNetwork
from kernel_network_tcp.transfer.service import Ticket
from kernel_network_tcp.transport.incoming import IncomingConnections

from kernel_processes.transport.reactor import Reactor
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.networks import Message, NetworkSettings
from kernel_spec.tls_files import TlsFiles

Refused = Callable[[str], None]


class WithLinks(TcpNodeNetwork):
    """A network whose links are of another class."""

    links: type[TcpNodeLinks] = TcpNodeLinks

    def link(self, store: Any, deliver: Callable[[ProcessId, Message], None]) -> TcpNodeLinks:
        made = super().link(store, deliver)
        made.__class__ = self.links
        return made


class OutOfOrderLinks(TcpNodeLinks):
    def forward(self, place: str, process: ProcessId, message: Message) -> None:
        self.held = [message, *getattr(self, "held", [])]
        if len(self.held) == 2:
            for one in self.held:
                super().forward(place, process, one)
            self.held = []


class OutOfOrder(WithLinks):
    links = OutOfOrderLinks


class ForgetfulLinks(TcpNodeLinks):
    def keep(self, place: str, object: ObjectId) -> None:
        pass


class Forgetful(WithLinks):
    links = ForgetfulLinks


class FaithfulLinks(TcpNodeLinks):
    def owner_left(self, owner: ProcessId) -> None:
        pass


class Faithful(WithLinks):
    """Goes on for owners that are gone."""

    links = FaithfulLinks


class TwiceLinks(TcpNodeLinks):
    def pull(
        self, object: ObjectId, size: int, owner: ProcessId, places: Sequence[str], then: Any, **more: Any
    ) -> Ticket:
        return super().pull(object, size, owner, places, lambda error: [then(error), then(error)], **more)


class Twice(WithLinks):
    links = TwiceLinks


class OnlyFirstLinks(TcpNodeLinks):
    def pull(
        self, object: ObjectId, size: int, owner: ProcessId, places: Sequence[str], then: Any, **more: Any
    ) -> Ticket:
        return super().pull(object, size, owner, places[:1], then, **more)


class OnlyFirst(WithLinks):
    links = OnlyFirstLinks


class StubbornLinks(TcpNodeLinks):
    def pull(
        self, object: ObjectId, size: int, owner: ProcessId, places: Sequence[str], then: Any, **more: Any
    ) -> Ticket:
        super().pull(object, size, owner, places, then, **more)
        return super().pull(object, size, owner, places, lambda error: None, **more)


class Stubborn(WithLinks):
    """Calls back who has cancelled."""

    links = StubbornLinks


class Trusting(TcpNodeNetwork):
    def __init__(self, settings: NetworkSettings, reactor: Reactor, on_refused: Refused) -> None:
        super().__init__(replace(settings, token=suite.TOKEN), reactor, on_refused)


class Silent(TcpNodeNetwork):
    def __init__(self, settings: NetworkSettings, reactor: Reactor, on_refused: Refused) -> None:
        super().__init__(settings, reactor, lambda reason: None)


class Modest(TcpNodeNetwork):
    def __init__(self, settings: NetworkSettings, reactor: Reactor, on_refused: Refused) -> None:
        super().__init__(replace(settings, advertised=""), reactor, on_refused)


class Fickle(TcpNodeNetwork):
    def __init__(self, settings: NetworkSettings, reactor: Reactor, on_refused: Refused) -> None:
        super().__init__(replace(settings, any_port=True), reactor, on_refused)


class Closed(TcpNodeNetwork):
    """Never lets in what comes by way of the relay."""

    def begin(self) -> None:
        pass


class Credulous(TcpNetwork):
    """Its processes believe everybody."""

    def open_process(self, token: bytes, tls: TlsFiles | None, loop: Reactor) -> TcpProcessNetwork:
        return super().open_process(suite.TOKEN, tls, loop)


class Deaf(TcpProcessNetwork):
    def receive(self, on_messages: Any, on_close: Any, on_refused: Any) -> IncomingConnections:
        return super().receive(lambda connection, messages: None, on_close, on_refused)


class WithDeafProcesses(TcpNetwork):
    def open_process(self, token: bytes, tls: TlsFiles | None, loop: Reactor) -> TcpProcessNetwork:
        return Deaf(token, None, loop)


@pytest.mark.parametrize(
    ("network", "test"),
    [
        (Credulous(), "test_a_process_hears_nobody_without_the_token"),
        (WithDeafProcesses(), "test_a_process_is_reached_through_its_node"),
    ],
)
def test_a_network_of_wrong_processes_does_not_pass(
    network: TcpNetwork, test: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "SECONDS", 3.0)
    tests = type("Tests", (suite.NetworkConformance,), {"network": network, "make_loop": staticmethod(Reactor)})()
    with pytest.raises(AssertionError):
        getattr(tests, test)()


@pytest.mark.parametrize(
    ("mutant", "test"),
    [
        (OutOfOrder, "test_messages_arrive_in_order"),
        (Forgetful, "test_orders_about_objects_arrive"),
        (Faithful, "test_with_its_owner_the_pull_of_an_object_ends"),
        (Twice, "test_an_object_comes_from_another_node"),
        (OnlyFirst, "test_an_object_comes_from_the_node_that_has_it"),
        (Stubborn, "test_who_has_cancelled_is_not_called_back"),
        (Trusting, "test_nobody_without_the_token_is_heard"),
        (Silent, "test_nobody_without_the_token_is_heard"),
        (Modest, "test_others_are_told_what_is_advertised"),
        (Fickle, "test_a_port_that_somebody_else_has_is_not_to_be_had"),
        (Closed, "test_a_program_outside_is_reached_by_way_of_the_relay"),
    ],
)
def test_a_wrong_network_does_not_pass(
    mutant: type[TcpNodeNetwork], test: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "SECONDS", 3.0)  # what never comes need not be waited for

    class Network(TcpNetwork):
        def open_node(self, settings: NetworkSettings, loop: Reactor, on_refused: Refused) -> TcpNodeNetwork:
            return mutant(settings, loop, on_refused)

    class Tests(suite.NetworkConformance):
        network = Network()
        make_loop = staticmethod(Reactor)

    with pytest.raises(AssertionError):
        getattr(Tests(), test)(tmp_path)
