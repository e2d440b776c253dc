"""Starting an agent: `python -m kernel.node.boot READY`, with a pickled `AgentConfig` on standard input.

What happened is written to the descriptor READY as one pickled value: None when the agent serves, else the error.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from kernel.logs import configure_later
from kernel.node.agent import Agent, ignore_terminal_signals
from kernel.node.config import AgentConfig
from kernel.node.processes import become_subreaper, set_title
from kernel.node.rotating_file import RotatingFile
from kernel.node.template_link import TemplateLink
from kernel.plugins import PluginManager
from kernel.transport.reactor import Reactor
from kernel_spec.errors import KernelError, PluginError

LOG_BYTES = 4 << 20
"""How large the agent's log may grow before it is begun anew; the one before it is kept."""


def main() -> int:
    """Run an agent until its session ends; return the exit code."""
    ready = int(sys.argv[1])
    config: AgentConfig = pickle.load(sys.stdin.buffer)
    sys.stdin.close()
    set_title("kernel: agent")
    ignore_terminal_signals()
    become_subreaper()
    configure_later(lambda: configure_logging(config), debug=config.log_level.lower() == "debug")
    reactor = Reactor()
    agent: Agent | None = None
    template = TemplateLink(
        reactor,
        config.preload,
        lambda id, pid: agent.workers.on_forked(id, pid) if agent else None,
        lambda id, reason: agent.workers.on_fork_failed(id, reason) if agent else None,
        lambda pid, status: agent.workers.on_exited(pid, status) if agent else None,
        lambda: agent.workers.on_template_lost() if agent else None,
    )
    try:
        agent = Agent(config, reactor, PluginManager.discover(config.plugins))
        agent.attach_template(template)
    except Exception as error:
        template.close()
        known = isinstance(error, KernelError)
        _report(ready, error if known else PluginError(f"the node agent can't start: {error!r}"))
        return 1
    _report(ready, None)
    agent.run()
    return 0


def configure_logging(config: AgentConfig) -> None:
    """Write the agent's log to its session's directory, from `log_level` on."""
    import logging

    import structlog

    path = os.path.join(config.directory, "logs", "agent.log")
    level = getattr(logging, config.log_level.upper(), logging.WARNING)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(bool_as_flag=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(RotatingFile(path, LOG_BYTES, 2)),  # type: ignore[arg-type]
        cache_logger_on_first_use=True,
    )


def _report(ready: int, outcome: Any) -> None:
    os.write(ready, pickle.dumps(outcome))
    os.close(ready)


if __name__ == "__main__":
    sys.exit(main())
