"""Start an agent: `main` runs with descriptors as arguments and a pickled `AgentConfig` on standard input.

The outcome is written to the first descriptor as one pickled value: None when the agent serves, otherwise the error.
The second descriptor is the lock of the session's directory, which the agent holds from then on; it is missing on a
file system without locks. Standard input stays open: its end means that the program that started the agent has ended.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from kernel.logs import Logger, configure_later
from kernel.plugin_faults import lines_of
from kernel.plugins import PluginManager
from kernel_processes.node import session_lock
from kernel_processes.node.session_guard import fork_guard
from kernel_processes.node.sessions import describe
from kernel_processes.node.template_link import TemplateLink
from kernel_processes.node.template_process import fork_template
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.protocol.head_sockets import head_socket
from kernel_processes.system.child_program import begin, configure_logging, report
from kernel_processes.system.processes import become_subreaper, collect_garbage
from kernel_processes.system.standard_logs import keep_standard_logs
from kernel_processes.system.starting import why_no_process
from kernel_processes.transport.connect import Connector
from kernel_processes.transport.networks import load_network
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import KernelError, PluginError, SessionEndedError
from kernel_spec.ids import NodeId

if TYPE_CHECKING:
    from kernel_processes.node.agent import Agent
    from kernel_spec.networks import NodeNetwork

_HEAD_PROGRAM = "kernel_processes.daemons.head_main"


def main() -> int:
    """Run an agent until its session ends; return the exit code."""
    config: AgentConfig
    ready, config, starter = begin("kernel: agent")
    for lock in sys.argv[2:]:
        session_lock.inherit(config.directory, int(lock))
    become_subreaper()
    try:
        first = None if config.relay else fork_template(config.preload)
    except OSError as error:
        report(ready, SessionEndedError(f"the node agent can't start the template process: {why_no_process(error)}"))
        return 1
    if config.relay:
        fork_guard(config.directory)
    log = os.path.join(config.directory, "logs", "agent.log")
    configure_later(lambda: configure_logging(log, config.log_level), debug=config.log_level.lower() == "debug")
    keep_standard_logs(config.log_level)
    reactor = Reactor()
    agent: Agent | None = None
    template = (
        None
        if first is None
        else TemplateLink(
            reactor,
            config.preload,
            lambda id, pid: agent.workers.on_forked(id, pid) if agent else None,
            lambda id, reason: agent.workers.on_fork_failed(id, reason) if agent else None,
            lambda pid, status: agent.workers.on_exited(pid, status) if agent else None,
            lambda: agent.workers.on_template_lost() if agent else None,
            first,
        )
    )
    # Imported only now, in parallel with the template's imports, which take about as long.
    from kernel_processes.daemons.local_head import LocalHead
    from kernel_processes.node.agent import Agent
    from kernel_processes.node.head_child import HeadChild
    from kernel_processes.node.head_link import RemoteHeadLink

    try:
        describe(config.directory, os.getpid(), not config.ephemeral)
        head_link = child = network = None
        open_network = _network_of(config, reactor)
        if config.head_apart:
            child = HeadChild(config, _HEAD_PROGRAM)
            config.head = head_socket(config.directory)
        if config.head:
            connector = Connector(config.token, reactor, config.network, config.tls)
            head_link = RemoteHeadLink(config.head, connector, reactor, NodeId(config.node))
            head_link.join(program=bool(config.relay))
            config.plugins = {**config.plugins, **head_link.settings["plugins"]}
            config.plugin_options = {**config.plugin_options, **head_link.settings["plugin_options"]}
        manager = PluginManager.discover(config.plugins, options=config.plugin_options)
        if open_network is not None:
            network = open_network()
        agent = Agent(config, reactor, manager, LocalHead, head_link, child, network)
        if network is not None:
            network.begin()
        if template is not None:
            agent.attach_template(template)
        if config.ephemeral:
            agent.end_with(starter)
    except Exception as error:
        if template is not None:
            template.close()
        known = isinstance(error, KernelError)
        report(ready, error if known else PluginError(f"the node agent can't start: {error!r}{lines_of(error)}"))
        return 1
    collect_garbage()
    report(ready, None)
    agent.run()
    return 0


def _network_of(config: AgentConfig, reactor: Reactor) -> Callable[[], NodeNetwork] | None:
    """Return a function that opens the network of a node that works with others, or None for a session of one machine.

    `config` gets the target of the network. A session of one machine does not import it. Raises PluginNotFoundError,
    which says what to install, when no network is installed.
    """
    if not config.listen and not config.relay:
        return None
    from kernel_processes.node.networks import find_network, network_name, network_settings

    config.network = find_network(network_name(os.environ))
    network = load_network(config.network)
    return lambda: network.open_node(network_settings(config), reactor, _note_refusal)


def _note_refusal(reason: str) -> None:
    Logger("kernel.node").warning("connection refused", reason=reason)
