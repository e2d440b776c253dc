"""`kernel`: the group of all commands, loaded one at a time."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from kernel.commands import CommandGroup, Refusal, load_command, run_commands
from kernel_spec.version import __version__

COMMANDS: Mapping[str, tuple[str, str]] = {
    "start": ("kernel_processes.cli.start_command:start", "Start a cluster, or a node of one."),
    "stop": ("kernel_processes.cli.stop_command:stop", "End what `kernel start` started."),
    "status": ("kernel_processes.cli.status_command:status", "Show what a session has, does and waits for."),
    "drain": ("kernel_processes.cli.drain_command:drain", "Let a node finish its work and leave."),
    "token": ("kernel_processes.cli.token_command:token", "Show the secret that other machines need to join."),
    "memory": ("kernel_processes.cli.memory_command:memory", "Show which process holds which object."),
    "list": ("kernel_processes.cli.list_command:list_", "List actors, tasks, nodes, workers, jobs, objects."),
    "get": ("kernel_processes.cli.list_command:get", "Show all details of one of them."),
    "summary": ("kernel_processes.cli.list_command:summary", "Count tasks, actors or objects by state."),
    "explain": ("kernel_processes.cli.explain_command:explain", "Say what an object or an actor waits for."),
    "debug": ("kernel_processes.cli.debug_command:debug", "Attach to breakpoint() in a task or an actor."),
    "logs": ("kernel_processes.cli.logs_command:logs", "Show the output of workers."),
    "stack": ("kernel_processes.cli.stack_command:stack", "Show what every worker is doing, as Python stacks."),
    "metrics": ("kernel_processes.cli.metrics_command:metrics", "Show what all processes count, for Prometheus."),
    "timeline": ("kernel_processes.cli.timeline_command:timeline", "Write when calls ran, for chrome://tracing."),
    "microbenchmark": (
        "kernel_processes.cli.microbenchmark_command:microbenchmark",
        "Measure how fast this machine is with kernel.",
    ),
    "certificates": (
        "kernel_processes.cli.certificates_command:certificates",
        "Make and show the certificates of a cluster.",
    ),
    "plugins": ("kernel.cli.plugins_command:plugins", "See, check and write plugins."),
}
"""Command to module and attribute, and its line in `kernel --help`. Most are of the engine of many processes."""

SEPARATE: Mapping[str, str] = {
    "attach": "launcher",
    "cluster-dump": "launcher",
    "doctor": "launcher",
    "down": "launcher",
    "events": "control_grpc",
    "exec": "launcher",
    "get-head-ip": "launcher",
    "get-worker-ips": "launcher",
    "kill-random-node": "launcher",
    "monitor": "launcher",
    "rllib": "rllib",
    "rsync-down": "launcher",
    "rsync-up": "launcher",
    "serve": "serve",
    "simulate": "simulation",
    "submit": "launcher",
    "tune": "tune",
    "up": "launcher",
}
"""Command that a plugin of this project brings to the extra of kernel that installs it."""


class LazyGroup(CommandGroup):
    """Imports the module of a command when it is used, and discovers plugins only for other commands."""

    _found: dict[str, click.Command] | None = None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the kernel's commands in their order, then those of plugins."""
        return [*COMMANDS, *(name for name in sorted(self._from_plugins()) if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the command called `name`, or None."""
        if name in COMMANDS:
            return load_command(COMMANDS[name][0], f"kernel {name}", "processes")
        return self._from_plugins().get(name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Resolve a command. Raises Refusal, which says how to install it, for one that is not installed."""
        name = args[0]
        if name in SEPARATE and self.get_command(ctx, name) is None:
            from kernel.installing import install_command

            command = install_command(SEPARATE[name]) or "this version of kernel does not come with it"
            raise Refusal(f"the command 'kernel {name}' is not installed: {command}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])
        others = {name: command for name, command in self._from_plugins().items() if name not in COMMANDS}
        if others:
            with formatter.section("Commands of plugins"):
                formatter.write_dl([(name, others[name].get_short_help_str(70)) for name in sorted(others)])

    def _from_plugins(self) -> dict[str, click.Command]:
        if self._found is None:
            from kernel.plugins import PluginManager
            from kernel.plugins.reporting import warn_not_a_command

            self._found = {}
            manager = PluginManager.discover()
            for command in manager.all("cli_command"):
                if isinstance(command, click.Command) and command.name:
                    self._found[command.name] = command
                else:
                    warn_not_a_command(manager.label(command), command)
        return self._found


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="kernel %(version)s")
def cli() -> None:
    """Ordinary Python functions and classes on all cores of one machine, or of many.

    \b
    Examples:
      kernel start --head                   start a cluster of this machine
      kernel start --address HOST:PORT      join one from another
      kernel status                         see what it has and does
      kernel stop                           end it

    Programs join a session with kernel.init(address="auto"), and need none that was started here: kernel.init()
    alone starts one that ends with the program. `kernel COMMAND --help` shows examples of each command.
    """


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code. Errors are one line on stderr."""
    return run_commands(cli, "kernel", arguments)


if __name__ == "__main__":
    sys.exit(main())
