"""The head as a process of its own: `main` runs like an agent's, with the same settings (see `child_program`).

The node beside it connects to a socket in the session's directory. Other nodes connect to the gateway of that node,
whose agent passes the accepted sockets on. The agent is the head's parent: when it dies, the head ends too.
"""

from __future__ import annotations

import os
from contextlib import suppress

from kernel.logs import Logger, configure_later
from kernel.plugins import PluginManager
from kernel.plugins.messages import skipped
from kernel_processes.head.control_plane import control_plane_of
from kernel_processes.head.head import Head, HeadConfig
from kernel_processes.head.socket_activation import SocketActivation
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.protocol.head_sockets import head_socket
from kernel_processes.system.child_program import begin, configure_logging, report
from kernel_processes.system.process_exit import finish
from kernel_processes.system.processes import collect_garbage
from kernel_processes.system.standard_logs import keep_standard_logs
from kernel_processes.transport.connect import Connector
from kernel_processes.transport.process_listener import ProcessListener
from kernel_processes.transport.reactor import Reactor
from kernel_processes.transport.socket_receiver import SUFFIX
from kernel_spec.errors import KernelError, PluginError
from kernel_spec.ids import NodeId

RESTORE_DEATHS, LEAST_RESTORE_SECONDS = 2.0, 3.0
"""A restarted head waits for its former nodes: for this multiple of `death_seconds`, at least for so many seconds."""
AGENT_ENDED = "the node agent beside the head has ended"


def main() -> int:
    """Run a head until its session ends; return the exit code."""
    config: AgentConfig
    ready, config, agent = begin("kernel: head")
    log = os.path.join(config.directory, "logs", "head.log")
    configure_later(lambda: configure_logging(log, config.log_level), debug=config.log_level.lower() == "debug")
    keep_standard_logs(config.log_level)
    try:
        process = HeadProcess(config, Reactor(), agent)
    except Exception as error:
        known = isinstance(error, KernelError)
        report(ready, error if known else PluginError(f"the head can't start: {error!r}"))
        return 1
    collect_garbage()
    report(ready, None)
    process.run()
    return 0


class HeadProcess:
    """Holds a head, its links to agents, and the loop that serves them. `agent` is a pipe that the agent holds open."""

    def __init__(self, config: AgentConfig, reactor: Reactor, agent: int) -> None:
        self._reactor = reactor
        self._ended = False
        self._log = Logger("kernel.head")
        manager = PluginManager.discover(config.plugins, options=config.plugin_options)
        path = head_socket(config.directory)
        for left in (path, path + SUFFIX):  # A head that was killed may have left these.
            with suppress(FileNotFoundError):
                os.unlink(left)
        head_config = HeadConfig(
            config.directory, config.directory, False, config.head_services, config.node, config.metadata_directory
        )
        broken_everywhere = set(manager.problems)
        self._head = Head(head_config, reactor, manager, lambda reason: None)
        for name in manager.problems.keys() - broken_everywhere:  # agents report only the problems that they found
            self._head.output.plugin_fault(skipped(name, manager.problems[name]))
        shared = {
            "plugins": manager.selected_names(),
            "plugin_options": manager.shared_options(),
            "observed": self._head.observation.active,
            "durable": self._head.journal.durable,
            "head_away_seconds": config.head_away_seconds,
        }
        self._membership = self._head.membership(shared, config.death_seconds)
        self._head.journal.beside(NodeId(config.node))
        if self._head.journal.nodes():
            self._head.recovery.begin(max(LEAST_RESTORE_SECONDS, RESTORE_DEATHS * config.death_seconds))
        connector = Connector(config.token, reactor, config.network, config.tls)
        self._listener = ProcessListener(
            path,
            config.token,
            reactor,
            self._membership.on_messages,
            self._membership.on_close,
            lambda reason: self._log.warning("connection refused", reason=reason),
            connector.network() if config.network else None,
        )
        serve = control_plane_of(self._head, config.token, config.tls)
        self._control_plane = SocketActivation(serve, config.directory, self._head.reactor, self._head.log)
        reactor.register(agent, lambda events: self._agent_ended(agent))

    def run(self) -> None:
        """Serve until the session ends."""
        self._head.start()
        while not self._ended:
            self.turn(60.0)
            self._ended = self._ended or (self._head.ending is not None and not self._membership.has_links)
        self._head.services.stop()
        self._control_plane.close(self._reactor.poll)
        self._listener.close()
        self._membership.close()
        self._head.close()

    def turn(self, seconds: float) -> None:
        """Wait up to `seconds` for events and handle them. An exception is logged, and the head goes on."""
        try:
            self._reactor.poll(seconds)
            self._head.observation.deliver()
            self._membership.flush()
        except Exception:
            self._log.exception("something failed in the head")

    def _agent_ended(self, agent: int) -> None:
        self._reactor.unregister(agent)
        os.close(agent)
        if self._head.ending is None:
            self._log.warning(AGENT_ENDED)
            self._head.close()  # The journal stays, for the next head.
            finish(1)
        self._ended = True


if __name__ == "__main__":
    raise SystemExit(main())
