"""The network of TCP keeps the contract of networks."""

from __future__ import annotations

from kernel_conformance.network import NetworkConformance
from kernel_network_tcp.network import network

from kernel_processes.transport.reactor import Reactor


class TestTcp(NetworkConformance):
    network = network
    make_loop = staticmethod(Reactor)
