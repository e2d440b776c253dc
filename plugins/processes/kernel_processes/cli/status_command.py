"""`kernel status`: show a session's nodes and resources, what it runs, and what waits and why."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from kernel.cli import display
from kernel_processes.cli.client import address_option, ask_session, json_option
from kernel_processes.cli.node_table import show_nodes
from kernel_processes.head.gathering import PATIENCE_SECONDS
from kernel_processes.node.sessions import SessionDirectory, running_sessions, sessions_elsewhere

_BYTES = ("memory", "object_store_memory")
_BAR = 22
"""Width of a bar and the gap after it, in columns."""
_ENDS = 3
"""Maximum number of workers ended for memory that are described."""
_ROWS = 15
"""Maximum number of actors, groups and waiting requests that are listed."""


@click.command("status")
@address_option
@json_option
def status(address: str | None, as_json: bool) -> None:
    """Show nodes, resources, workers, actors, placement groups, what waits and why, object stores, and programs.

    \b
    Examples:
      kernel status
      kernel status --json
      kernel status --address 10.0.0.1:6380 --token-file kernel.token
      kernel status --address session_2026-11-21_11-25-35_123456_4242
    """
    session, found = ask_session(address, "status")
    sessions = [
        {"session": one.name, "directory": one.directory, "agent_pid": one.pid, "stays": one.stays}
        for one in running_sessions()
    ]
    elsewhere = sessions_elsewhere()
    if as_json:
        stays = session.stays if isinstance(session, SessionDirectory) else True
        display.echo_json({**found, "name": session.name, "stays": stays, "sessions": sessions, "elsewhere": elsewhere})
        return
    _show_head(session.name, found)
    show_nodes(found["nodes"], found["node"])
    _show_resources(found["total"], found["available"])
    _show_store(found["store"])
    show_memory(found["memory"])
    _show_workers(found["workers"])
    _show_actors(found["actors"])
    _show_groups(found.get("placement_groups", []))
    _show_waiting(found["waiting"], found["waiting_count"])
    _show_programs(found["jobs"])
    _show_services(found.get("services", {}))
    _show_problems(found["problems"])
    _show_sessions(session.name, sessions)
    _show_elsewhere(elsewhere)
    show_silent_nodes(found["silent_nodes"], "its workers, its store and its memory are")


def _show_head(name: str, found: Mapping[str, Any]) -> None:
    up = display.duration(time.time() - found["started"])
    keeps = f"metadata {found['metadata']['name']}"
    click.echo(f"{display.heading(name)}  up {up}, agent pid {found['pid']}, scheduler {found['scheduler']}, {keeps}")


def _show_resources(total: Mapping[str, float], available: Mapping[str, float]) -> None:
    rows = []
    for name in sorted(total, key=lambda name: (name not in ("CPU", "GPU"), name in _BYTES, name)):
        if name.startswith("node:") or name == "object_store_memory":
            continue
        shown = display.size if name in _BYTES else display.quantity
        used = total[name] - available.get(name, 0.0)
        rows.append((name, display.bar(used, total[name]), shown(used), shown(total[name])))
    click.echo()
    display.table(("RESOURCE", "", "USED", "TOTAL"), rows, right=(2, 3))


def _show_store(store: Mapping[str, int]) -> None:
    used, capacity = store["used"], store["capacity"]
    parts = [display.count(store["objects"], "object"), f"{display.size(store['pinned'])} in use"]
    if store["spilled"]:
        parts.append(f"{display.size(store['spilled'])} spilled")
    if store["overflow_objects"]:
        parts.append(f"{display.size(store['overflow'])} in {display.count(store['overflow_objects'], 'file')}")
    if store["waiting"]:
        parts.append(f"{display.count(store['waiting'], 'request')} waiting for space")
    click.echo(f"\n{display.heading('OBJECT STORE')}")
    click.echo(f"{display.bar(used, capacity)}  {display.size(used)} of {display.size(capacity)}: {', '.join(parts)}")


def show_memory(nodes: Mapping[str, Mapping[str, Any]]) -> None:
    """Print each node's memory limits and use, and the workers that were ended for memory lately."""
    for node, memory in nodes.items():
        of_node = f"  node {node}" if len(nodes) > 1 else ""
        click.echo(f"\n{display.heading('MEMORY')}{of_node}  guard {memory['guard']}")
        _show_memory_of_node(memory)


def show_silent_nodes(nodes: Iterable[str], what: str) -> None:
    """Print for each node that did not answer in time that `what` ("its workers are") missing in the output."""
    for node in nodes:
        click.echo(f"node {node} did not answer within {PATIENCE_SECONDS:g} s; {what} missing here", err=True)


def show_silent_processes(processes: Mapping[bytes, tuple[int, str]], what: str) -> None:
    """Print for each process (pid and node) that did not answer in time that `what` missing in the output."""
    for pid, node in processes.values():
        text = f"process {pid} on node {node} did not answer within {PATIENCE_SECONDS:g} s; {what} missing here"
        click.echo(text, err=True)


def _show_memory_of_node(memory: Mapping[str, Any]) -> None:
    for name, used, total in memory["limits"]:
        text = f"{display.size(used)} of {display.size(total)}: {name}"
        click.echo(f"{display.bar(used, total)}  {display.shorten(text, display.terminal_width() - _BAR)}")
    if memory["pressure"] >= 0.01:
        click.echo(f"  all processes stalled for lack of memory during {memory['pressure']:.0%} of the last 10 s")
    if not memory["ended"]:
        return
    click.echo(f"  {display.count(memory['ended'], 'worker')} ended for memory, the last of them:")
    for end in memory["ends"][-_ENDS:]:
        ago = display.duration(time.time() - end["time"])
        click.echo(f"  {click.style(end['name'] or 'worker', fg='yellow')} pid {end['pid']}, {ago} ago, {end['fault']}")
        text = end["cause"]
        click.echo(click.wrap_text(text, display.terminal_width(), initial_indent="    ", subsequent_indent="    "))


def _show_workers(workers: Sequence[Mapping[str, Any]]) -> None:
    click.echo(f"\n{display.heading('WORKERS')}  {_states(workers)}")


def _show_actors(actors: Sequence[Mapping[str, Any]]) -> None:
    click.echo(f"\n{display.heading('ACTORS')}  {_states(actors)}")
    living = [actor for actor in actors if actor["state"] != "DEAD"]
    rows = [
        (
            actor["actor_id"],
            actor["class_name"],
            actor["name"] or "-",
            actor["state"],
            str(actor["pid"] or "-"),
            str(actor["restarts"]),
        )
        for actor in living[:_ROWS]
    ]
    if rows:
        display.table(("ACTOR", "CLASS", "NAME", "STATE", "PID", "RESTARTS"), rows, indent=2)
    _show_more(len(living))


def _show_groups(groups: Sequence[Mapping[str, Any]]) -> None:
    living = [group for group in groups if group["state"] != "REMOVED"]
    if not living:
        return
    click.echo(f"\n{display.heading('PLACEMENT GROUPS')}  {_states(living)}")
    rows = []
    for group in living[:_ROWS]:
        nodes = len(set(group["bundles_to_node_id"].values()))
        placed = f"{len(group['bundles_to_node_id'])}/{len(group['bundles'])} on {display.count(nodes, 'node')}"
        rows.append((group["placement_group_id"], group["name"] or "-", group["state"], group["strategy"], placed))
    display.table(("GROUP", "NAME", "STATE", "STRATEGY", "BUNDLES"), rows, indent=2)
    _show_more(len(living))


def _show_waiting(waiting: Sequence[Mapping[str, Any]], number: int) -> None:
    click.echo(f"\n{display.heading('WAITING')}  {display.count(number, 'request') if number else 'none'}")
    alike: Counter[tuple[str, str, str]] = Counter()
    for request in waiting:
        wanted = ", ".join(f"{name}: {display.quantity(amount)}" for name, amount in request["wanted"].items())
        alike[request["name"], wanted or "nothing", request["reason"]] += 1
    for (name, wanted, reason), times in list(alike.items())[:_ROWS]:
        repeated = f" x {times}" if times > 1 else ""
        click.echo(f"  {click.style(name or 'unnamed', fg='yellow')}{repeated} wants {wanted}")
        click.echo(click.wrap_text(reason, display.terminal_width(), initial_indent="    ", subsequent_indent="    "))
    _show_more(number, len(waiting) if len(alike) <= _ROWS else _ROWS)


def _show_programs(jobs: Sequence[Mapping[str, Any]]) -> None:
    running = [job for job in jobs if not job["ended"]]
    ended = len(jobs) - len(running)
    texts = [f"{len(running)} running"] * bool(running) + [f"{ended} ended"] * bool(ended)
    click.echo(f"\n{display.heading('PROGRAMS')}  {', '.join(texts) or 'none'}")
    now = time.time()
    rows = [
        (str(job["pid"]), display.duration(now - job["started"]), job["namespace"], _script(job)) for job in running
    ]
    if rows:
        display.table(("PID", "FOR", "NAMESPACE", "SCRIPT"), rows, indent=2)


def _script(job: Mapping[str, Any]) -> str:
    where = f" (outside, on {job['outside']})" if job.get("outside") else ""
    return (job["script"] or "-") + where


def _show_services(services: Mapping[str, Any]) -> None:
    if services:
        click.echo(f"\n{display.heading('SERVICES')}")
        for name, said in services.items():
            texts = [f"{key}: {value}" for key, value in said.items()] if isinstance(said, Mapping) else [str(said)]
            click.echo(f"  {name}  {', '.join(texts)}".rstrip())


def _show_problems(problems: Mapping[str, str]) -> None:
    if problems:
        click.echo(f"\n{click.style('BROKEN PLUGINS', fg='red', bold=True)}")
        for name, text in problems.items():
            click.echo(f"  {name}: {text.splitlines()[0] if text else 'unknown'} (kernel plugins info {name})")


def _show_sessions(shown: str, sessions: Sequence[Mapping[str, Any]]) -> None:
    others = [one for one in sessions if one["session"] != shown]
    if not others:
        return
    click.echo(f"\n{display.heading('OTHER SESSIONS')}  look at one with --address")
    rows = [
        (one["session"], str(one["agent_pid"]), "until kernel stop" if one["stays"] else "with its program")
        for one in others
    ]
    display.table(("SESSION", "AGENT PID", "ENDS"), rows, indent=2)


def _show_elsewhere(sessions: Mapping[str, str]) -> None:
    if sessions:
        click.echo(f"\n{display.heading('SESSIONS ELSEWHERE')}  in the same directory, but out of reach from here")
        display.table(("SESSION", "WHERE"), list(sessions.items()), indent=2)


def _show_more(number: int, shown: int = _ROWS) -> None:
    if number > shown:
        click.echo(f"  {display.ellipsis()} and {number - shown:,} more (--json lists them)")


def _states(rows: Iterable[Mapping[str, Any]]) -> str:
    found = Counter(row["state"] for row in rows)
    text = ", ".join(f"{number} {state.lower().replace('_', ' ')}" for state, number in found.most_common())
    return text or "none"
