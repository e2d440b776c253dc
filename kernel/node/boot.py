"""Starting an agent: `main` is run with descriptors as arguments and a pickled `AgentConfig` on standard input.

What happened is written to the first descriptor as one pickled value: None when the agent serves, else the error. The
second is the lock of the session's directory, which the agent holds from then on; there is none on a file system
without locks. The input stays open; when it ends, the program that started the agent is gone.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

import kernel.runtime.process  # noqa: F401  (agent and workers need it: the template's fork comes after it)
from kernel.logs import configure_later
from kernel.node import session_lock
from kernel.node.config import AgentConfig
from kernel.node.descriptor_limit import raise_limit
from kernel.node.log_writer import LogWriter
from kernel.node.processes import become_subreaper, collect_garbage, ignore_terminal_signals, set_title
from kernel.node.relay.guard import fork_guard
from kernel.node.rotating_file import RotatingFile
from kernel.node.sessions import describe
from kernel.node.standard_logs import keep_standard_logs
from kernel.node.template_link import TemplateLink
from kernel.node.template_process import fork_template
from kernel.plugin_faults import lines_of
from kernel.plugins import PluginManager
from kernel.threads import why_no_process
from kernel.transport.reactor import Reactor
from kernel_spec.errors import KernelError, PluginError, SessionEndedError
from kernel_spec.ids import NodeId

if TYPE_CHECKING:
    from kernel.node.agent import Agent

LOG_BYTES = 4 << 20
"""How large the agent's log may grow before it is begun anew; the one before it is kept."""


def main() -> int:
    """Run an agent until its session ends; return the exit code."""
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
    configure_later(lambda: configure_logging(config), debug=config.log_level.lower() == "debug")
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
    # These take as long as what the template imports: so both do it at once.
    from kernel.node.agent import Agent
    from kernel.node.head_child import HeadChild
    from kernel.node.relay.link import RelayLink
    from kernel.node.uplink import RemoteUplink

    try:
        describe(config.directory, os.getpid(), not config.ephemeral)
        uplink = child = link = None
        if config.head_apart:
            child = HeadChild(config)
            config.head = os.path.join(config.directory, "sockets", "head")
        if config.head:
            uplink = RemoteUplink(config.head, config.token, reactor, NodeId(config.node), config.tls)
            uplink.join(program=bool(config.relay))
            config.plugins = {**config.plugins, **uplink.settings["plugins"]}
            config.plugin_options = {**config.plugin_options, **uplink.settings["plugin_options"]}
        if config.relay:
            link = RelayLink(config.relay, config.token, reactor, NodeId(config.node), config.tls)
            config.advertised = link.join()
        manager = PluginManager.discover(config.plugins, options=config.plugin_options)
        agent = Agent(config, reactor, manager, uplink, child)
        if link is not None and agent.gateway is not None:
            link.begin(agent.gateway.adopt)
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


def begin(title: str) -> tuple[int, AgentConfig, int]:
    """Read what this process was told; return where to `report`, the settings, and the end of who started it."""
    ready = int(sys.argv[1])
    config: AgentConfig = pickle.load(sys.stdin.buffer)
    starter = os.dup(sys.stdin.fileno())
    sys.stdin.close()
    set_title(title, config.directory)
    ignore_terminal_signals()
    raise_limit()
    return ready, config, starter


def configure_logging(config: AgentConfig, name: str = "agent.log") -> None:
    """Write the log of an agent (or a head) to its session's directory, from `log_level` on."""
    import atexit
    import logging

    import structlog

    log = LogWriter(RotatingFile(os.path.join(config.directory, "logs", name), LOG_BYTES, 2))
    atexit.register(log.close)
    level = getattr(logging, config.log_level.upper(), logging.WARNING)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(bool_as_flag=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(log),  # type: ignore[arg-type]
        cache_logger_on_first_use=True,
    )


def report(ready: int, outcome: Any) -> None:
    """Tell who started this process that it serves (None), or why not."""
    os.write(ready, pickle.dumps(outcome))
    os.close(ready)
