"""Translate Ray's command line into kernel's. Pure: arguments in, arguments and remarks out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import field

from kernel_compat_ray.command_words import (
    COMMANDS,
    FLAGS,
    FORCED,
    LAUNCHER,
    LAUNCHER_IGNORED,
    LISTINGS_REFUSED,
    OTHERS_IGNORED,
    START_IGNORED,
    START_OPTIONS,
    START_REFUSED,
)
from kernel_compat_ray.errors import NotSupportedError
from kernel_spec.dataclass import dataclass

_LISTINGS = ("list", "get", "summary")


@dataclass(slots=True)
class Translation:
    """Holds arguments for `kernel`, and remarks for the user about those that were left out."""

    arguments: list[str]
    remarks: list[str] = field(default_factory=list)


def translate_command(command: str, rest: Sequence[str]) -> Translation:
    """Return kernel's arguments for `ray COMMAND REST`. Raises NotSupportedError with what to do instead."""
    target = COMMANDS.get(command) or COMMANDS.get(command.replace("_", "-"))
    if target is None:
        raise NotSupportedError(
            f"kernel has no counterpart of the command `ray {command}`; it has those of {', '.join(sorted(COMMANDS))}"
        )
    if target.startswith("-"):
        raise NotSupportedError(f"`ray {command}` is not supported: {target[1:]}")
    if command == "start":
        return _start(rest)
    if target in LAUNCHER:
        return _launcher(target, rest)
    if command in _LISTINGS:
        return _listing(command, rest)
    return _others(target, rest)


def _start(rest: Sequence[str]) -> Translation:
    found = Translation(["start"])
    waiting = list(rest)
    while waiting:
        option, equals, value = waiting.pop(0).partition("=")
        name = option.replace("_", "-")
        if name in START_REFUSED:
            raise NotSupportedError(f"`ray start {option}` is not supported: {START_REFUSED[name]}")
        known = name in START_OPTIONS or name in START_IGNORED
        if not known:
            raise NotSupportedError(f"`ray start` has no option {option!r} that kernel knows; see: kernel start --help")
        if name in FLAGS:
            values = []
        elif equals:
            values = [value]
        elif waiting:
            values = [waiting.pop(0)]
        else:
            raise NotSupportedError(f"`ray start {option}` needs a value")
        if name in START_IGNORED:
            found.remarks.append(f"{option} has no effect: {START_IGNORED[name]}")
        elif name == "--labels":
            found.arguments += ["--labels", _labels(values[0])]
        else:
            found.arguments += [START_OPTIONS[name], *values]
    return found


def _labels(text: str) -> str:
    """Return "a=b,c=d" for that, or for a JSON object."""
    return ",".join(f"{key}={value}" for key, value in json.loads(text).items()) if text.startswith("{") else text


def _launcher(command: str, rest: Sequence[str]) -> Translation:
    """Return the launcher's command. A script without a cluster file runs here, where the program is."""
    words = list(rest)
    if command == "submit" and not any(word.endswith((".yaml", ".yml", ".toml")) for word in words):
        return _run_here(words)
    found = Translation([command])
    while words:
        word = words.pop(0)
        if word == "--":  # What follows is the script's.
            found.arguments += [word, *words]
            break
        option, equals, _ = word.partition("=")
        if option in LAUNCHER_IGNORED:
            if LAUNCHER_IGNORED[option] and not equals and words:
                words.pop(0)
        elif command == "monitor" and option == "--lines":
            found.remarks.append("--lines has no effect: `kernel monitor` shows the status, again and again")
            if not equals and words:
                words.pop(0)
        else:
            found.arguments.append(word)
    return found


def _run_here(words: Sequence[str]) -> Translation:
    kept = [word for word in words if word not in ("--start", "--stop", "--tmux", "--screen", "--docker")]
    if not kept:
        raise NotSupportedError("`ray submit` needs a cluster file and a script")
    script, *arguments = kept
    return Translation(["ray-run", script, *(arguments[1:] if arguments[:1] == ["--"] else arguments)])


def _listing(command: str, rest: Sequence[str]) -> Translation:
    """Return `kernel list`, `get` or `summary`: JSON for `--format json`, and for YAML, of which JSON is a part."""
    found = Translation([command])
    waiting = list(rest)
    while waiting:
        option, equals, value = waiting.pop(0).partition("=")
        if option in LISTINGS_REFUSED:
            raise NotSupportedError(f"`ray {command} {option}` is not supported: {LISTINGS_REFUSED[option]}")
        if option not in ("--format", "--timeout"):
            found.arguments.append(option + equals + value)
            continue
        if not equals:
            value = waiting.pop(0) if waiting else ""
        if option == "--format" and value in ("json", "yaml"):
            found.arguments.append("--json")
    return found


def _others(target: str, rest: Sequence[str]) -> Translation:
    kept = [FORCED.get(word, word) for word in rest if word not in OTHERS_IGNORED]
    return Translation([target, *kept])
