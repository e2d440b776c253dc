"""Translate Ray's command line into kernel's. Pure: arguments in, arguments and remarks out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import field

from kernel_compat_ray.command_words import (
    COMMANDS,
    FLAGS,
    FORCED,
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
    if command == "submit":
        return _submit(rest)
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


def _submit(rest: Sequence[str]) -> Translation:
    """Return what runs the script here: a cluster's YAML file, which kernel has no use for, is left out."""
    words = [word for word in rest if word not in ("--start", "--stop", "--tmux", "--screen", "--docker")]
    found = Translation(["ray-run"])
    if words and words[0].endswith((".yaml", ".yml")):
        found.remarks.append(f"{words[0]} has no effect: the program runs here; say its cluster by RAY_ADDRESS")
        words = words[1:]
    if not words:
        raise NotSupportedError("`ray submit` needs a script")
    script, *arguments = words
    found.arguments += [script, *(arguments[1:] if arguments[:1] == ["--"] else arguments)]
    return found


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
