"""`kernel debug`: list the breakpoints at which calls of a session wait, and open a debugger at one of them."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

from kernel.cli import display
from kernel.commands import Failure, Refusal
from kernel_engine.terminal_text import harmless
from kernel_processes.cli.client import SessionClient, address_option, find_head, json_option
from kernel_processes.node.sessions import SessionDirectory, running_sessions
from kernel_processes.protocol.debug_conversation import ANSWER, ATTACH, DETACH, ID_DIGITS, POLL, WAITING, DebugReply
from kernel_spec.errors import KernelError, OptionError

_AGAIN_SECONDS = (0.02, 0.25)
"""Seconds between two requests for the debugger's output: at first, and at most."""
_NEXT_SECONDS = 0.5
"""Seconds in which the same call must reach its next breakpoint for the terminal to attach to it by itself."""
_SOON_SECONDS = 2.0
"""Seconds to wait for each session's answer while searching for a breakpoint."""

Row = Mapping[str, Any]


@click.command("debug")
@click.argument("which", required=False, metavar="[NUMBER|ID]")
@click.option("--list", "only_list", is_flag=True, help="Only list the waiting breakpoints.")
@address_option
@json_option
def debug(which: str | None, only_list: bool, address: str | None, as_json: bool) -> None:
    """List the breakpoints at which tasks and actors wait, or attach to one by its number or the beginning of its id.

    The debugger is pdb: `help` shows the commands, `continue` lets the call go on, `quit` ends it with an error. Ctrl-D
    or closing the terminal leaves the call waiting at its breakpoint.

    \b
    Examples:
      kernel debug                 list them, and ask for one
      kernel debug 1
      kernel debug 5f0c91d2
      kernel debug --address 10.0.0.1:6380 --token-file kernel.token
    """
    session = _session_of(which) if address is None else None
    with SessionClient(session or find_head(address)) as client:
        rows: Sequence[Row] = client.ask("breakpoints")
        if as_json:
            display.echo_json(rows)
            return
        if which is None:
            _show(rows)
            if only_list or not rows or not sys.stdin.isatty():
                return
            which = _choice()
        if which:
            _attach(client, _chosen(rows, which))


def _session_of(which: str | None) -> SessionDirectory | None:
    """Return the newest of the user's sessions with a breakpoint of the id `which`, or None if there is none."""
    if which is None or len(which) != ID_DIGITS:
        return None
    for session in reversed(running_sessions()):
        with suppress(Failure, KernelError), SessionClient(session, _SOON_SECONDS) as client:
            if any(row["id"] == which for row in client.ask("breakpoints")):
                return session
    return None


def _show(rows: Sequence[Row]) -> None:
    if not rows:
        click.echo("No breakpoint is waiting. A task or an actor waits at one when it calls breakpoint().")
        return
    heads = ("", "ID", "IN", "NODE", "PID", "SINCE", "STATE", "WHERE")
    table = [
        (
            str(number),
            row["id"],
            row["name"],
            row["node_id"][:8],
            str(row["pid"]),
            display.duration(time.time() - row["since"]),
            f"{row['state']}, {row['error'].partition(':')[0]}" if row["error"] else row["state"],
            f"{row['file']}:{row['line']}",
        )
        for number, row in enumerate(rows, 1)
    ]
    display.table(heads, table)


def _choice() -> str:
    try:
        return input("Attach to (number or id; Enter: none): ").strip()
    except EOFError:
        click.echo()
        return ""


def _chosen(rows: Sequence[Row], which: str) -> Row:
    """Return the row with the number `which`, or the one whose id begins with `which` or whose task id it is.

    A number of a row takes precedence over an id that begins with it. Raises Refusal unless exactly one row matches.
    """
    if which.isdigit() and 1 <= int(which) <= len(rows):
        return rows[int(which) - 1]
    found = [row for row in rows if row["id"].startswith(which) or row["task"].hex() == which]
    if len(found) != 1:
        there = ", ".join(row["id"] for row in rows) or "none"
        raise Refusal(f"{which!r} names {'several' if found else 'no'} breakpoints; those that wait are {there}")
    return found[0]


def _attach(client: SessionClient, row: Row) -> None:
    """Run the terminal of a breakpoint, and of those that follow at once in the same call."""
    if sys.stdin.isatty():
        importlib.import_module("readline")  # input() has a history then
    following: Row | None = row
    while following is not None:
        terminal = _Terminal(client, following)
        if not terminal.talk():
            click.echo(f"kernel: it waits on; attach again with: kernel debug {following['id']}", err=True)
            return
        click.echo(f"kernel: {terminal.ended}", err=True)
        following = None if client.is_lost else _next(client, following)


def _next(client: SessionClient, row: Row) -> Row | None:
    """Return the next breakpoint of the same call, or None if it reaches none within _NEXT_SECONDS."""
    deadline = time.monotonic() + _NEXT_SECONDS
    while row["task"] and time.monotonic() < deadline:
        for other in client.ask("breakpoints"):
            if other["task"] == row["task"] and other["id"] != row["id"] and other["state"] == WAITING:
                return other  # type: ignore[no-any-return]
        time.sleep(_AGAIN_SECONDS[0])
    return None


class _Terminal:
    """Shows the output of a debugger, and sends it the lines that are typed."""

    def __init__(self, client: SessionClient, row: Row) -> None:
        self._client = client
        self._row = row
        self._answered = 0
        self.ended = ""

    def talk(self) -> bool:
        """Run until the debugger ends; return False if the user detached before."""
        reply = self._say(ATTACH)
        try:
            while not self._is_over(reply):
                if reply.number <= self._answered:
                    reply = self._await_news()
                    continue
                line = self._typed(reply.prompt)
                if line is not None:
                    self._answered = reply.number
                    reply = self._say(ANSWER, reply.number, line)
        except (EOFError, KeyboardInterrupt):
            click.echo()
            self._client.ask("debug", self._row["id"], DETACH, 0, "")
            return False
        return True

    def _typed(self, prompt: str) -> str | None:
        """Return a typed line, or None after Ctrl-C. Raises EOFError for Ctrl-D or the end of the input."""
        shown = click.get_text_stream("stdout")
        shown.flush()
        if not sys.stdin.isatty():
            shown.write(prompt)
            shown.flush()
            line = sys.stdin.readline()
            if not line:
                raise EOFError
            return line.rstrip("\n")
        try:
            return input(prompt)
        except KeyboardInterrupt:
            click.echo()
            return None

    def _await_news(self) -> DebugReply:
        pause, most = _AGAIN_SECONDS
        while True:
            time.sleep(pause)
            reply = self._say(POLL)
            if reply.ended or reply.number > self._answered:
                return reply
            pause = min(most, pause * 1.2)

    def _is_over(self, reply: DebugReply) -> bool:
        self.ended = reply.ended
        return bool(reply.ended)

    def _say(self, verb: str, number: int = 0, text: str = "") -> DebugReply:
        """Send a request to the debugger and show its new output. Raises Failure when it can't be reached at first."""
        try:
            answer = self._client.ask("debug", self._row["id"], verb, number, text)
        except (Failure, OptionError):
            if not self._answered:
                raise
            return DebugReply("", 0, "", "the session has ended" if self._client.is_lost else "its process has ended")
        if len(answer) == 1:
            raise Failure(f"breakpoint {self._row['id']} can't be debugged: {answer[0]}")
        reply = DebugReply(*answer)
        shown = reply.output
        if reply.number and shown.endswith(reply.prompt):
            shown = shown[: len(shown) - len(reply.prompt)]  # `input` shows the prompt
        click.echo("\n".join(map(harmless, shown.split("\n"))), nl=False)
        return reply
