"""Commands that answer what can't be done in one line, with the nearest name there is. Plugins' commands use it too."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from typing import Any

import click

from kernel.logs import TRACEBACK_VARIABLE
from kernel_spec.errors import KernelError, PluginNotFoundError, UsageError
from kernel_spec.nearest import nearest as most_like

_NO_ARGUMENTS: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""How newer clicks say that a group was called alone: its message is the help."""


class Refusal(click.ClickException):
    """Something was asked for that isn't there or makes no sense. Exit code 2."""

    exit_code = 2


class Failure(click.ClickException):
    """Something was right to ask for and could not be done. Exit code 1."""

    exit_code = 1


class CommandGroup(click.Group):
    """A group of commands that refuses an unknown one with the nearest there is, and tells errors of ours in words."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Answer an unknown command in one line."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise unknown(f"command {f'{ctx.command_path} {name}'!r}", name, self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a `KernelError` becomes a message without a traceback."""
        try:
            return super().invoke(ctx)
        except KernelError as error:
            wrong_use = isinstance(error, (UsageError, PluginNotFoundError))
            raise (Refusal if wrong_use else Failure)(str(error)) from error


def run_commands(commands: CommandGroup, name: str, arguments: list[str] | None = None) -> int:
    """Run the command line of a program and return its exit code. What goes wrong is one line on stderr, after `name`.

    `arguments` are those of this process if they are not given. Exit codes: 2 for what makes no sense to ask for, 1 for
    what could not be done, 130 for Ctrl-C. A traceback in a message keeps its lines.
    """
    colour = False if os.environ.get("NO_COLOR") else None
    try:
        result = commands.main(arguments, prog_name=name, standalone_mode=False, color=colour)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except _NO_ARGUMENTS as error:
        click.echo(error.format_message())
        return 0
    except click.UsageError as error:
        return _say(name, _where(name, error) + one_line(error.format_message()), error.exit_code)
    except click.ClickException as error:
        return _say(name, _shown(error.format_message()), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing more may be written, not even while exiting.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        text = one_line(f"{type(error).__name__}: {error}")
        return _say(name, f"{text} (unexpected; {TRACEBACK_VARIABLE}=1 shows where)", 1)


def _where(name: str, error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx is not None else name
    return f"{path}: " if path != name else ""


def _shown(text: str) -> str:
    return text if "\n  File " in text else one_line(text)


def _say(name: str, text: str, code: int) -> int:
    word = f"{name}:"
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        word = click.style(word, fg="red", bold=True)
    click.echo(f"{word} {text}", err=True, color=True)
    return code


def unknown(what: str, name: str, known: Iterable[str]) -> Refusal:
    """Return the refusal of `what`, whose name is `name`: with the nearest of `known`, or all of them."""
    names = list(known)
    hint = nearest(name, names) or f"; there are {', '.join(names)}"
    return Refusal(f"there is no {what}{hint}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'x'?` when one of `known` is close to `name`, else nothing."""
    names = list(known)
    begun = [one for one in names if name and one.startswith(name)]
    close = begun[0] if begun else most_like(name, names)
    return f", did you mean {close!r}?" if close else ""


def one_line(text: str) -> str:
    """Return `text` with every line break and run of spaces made one space."""
    return " ".join(text.split())


def load_command(target: str, command: str, extra: str) -> click.Command:
    """Import a command from "module:attribute". Raises Refusal where what the extra brings is not installed."""
    module, _, attribute = target.partition(":")
    try:
        loaded: click.Command = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        from kernel.installing import install_command

        how = install_command(extra) or "this version of kernel does not come with it"
        raise Refusal(f"the command '{command}' is not installed: {how}") from None
    return loaded
