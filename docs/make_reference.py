"""Write docs/reference.md from the code: `python docs/make_reference.py`. A test compares the page with the code."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import kernel
from kernel.cli.main import COMMANDS
from kernel_spec import errors

PAGE = Path(__file__).with_name("reference.md")
GROUPS: dict[str, tuple[str, ...]] = {
    "Sessions": ("init", "shutdown", "is_initialized"),
    "Tasks and objects": (
        "remote", "get", "put", "wait", "cancel", "RemoteFunction", "ObjectRef", "ObjectRefGenerator", "DynamicReturns",
        "register_serializer", "deregister_serializer", "collect_references",
        "unpicklable_parts", "UnpicklablePart",
    ),
    "Actors": (
        "ActorClass", "ActorHandle", "ActorMethod", "method", "get_actor", "list_named_actors", "kill", "exit_actor",
    ),
    "Where code runs": (
        "NodeAffinitySchedulingStrategy", "NodeLabelSchedulingStrategy", "get_runtime_context", "RuntimeContext",
        "get_gpu_ids", "get_resource_ids", "pack_runtime_env",
    ),
    "Placement groups": (
        "placement_group", "PlacementGroup", "PlacementGroupSchedulingStrategy", "remove_placement_group",
        "get_placement_group", "placement_group_table", "get_current_placement_group",
    ),
    "Remembering": ("KeyValue",),
    "Asking": (
        "nodes", "actors", "cluster_resources", "available_resources", "set_resource", "drain_node", "demand",
        "wait_for_demand", "request_resources", "explain",
        "make_node_provider",
        "list_state", "get_state", "summarize_state", "errors", "timeline", "profile", "set_title",
    ),
}  # fmt: skip
NOT_CALLED = ("__version__", "exceptions", "metrics")
DUNDERS = ("__await__",)


def signature_of(function: Any, name: str) -> str:
    """Return how a function is called, the same on every Python."""
    parts, keyword_only = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            keyword_only = True
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text = stars + parameter.name
        if isinstance(parameter.annotation, str) and parameter.annotation != "Any":
            text += f": {parameter.annotation}"
        if parameter.default is not parameter.empty:
            text += f" = {parameter.default!r}" if ":" in text else f"={parameter.default!r}"
        parts.append(text)
    line = f"{name}({', '.join(parts)})"
    return line if len(line) <= 100 else f"{name}(\n    " + ",\n    ".join(parts) + ",\n)"


def public_methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the documented methods and properties of a class, in their order."""
    for name, member in vars(cls).items():
        if name.startswith("_") and name not in DUNDERS:
            continue
        function = member.fget if isinstance(member, property) else member
        if callable(function) and inspect.getdoc(function):
            yield name, member


def entry(name: str) -> list[str]:
    """Return the part of the page on one exported name."""
    value = getattr(kernel, name)
    text = inspect.getdoc(value) or ""
    if not inspect.isclass(value):
        return [f"### `{name}`", "", "```text", signature_of(value, f"kernel.{name}"), "```", "", text, ""]
    lines = [f"### `{name}`", "", text, ""]
    for method, member in public_methods(value):
        if isinstance(member, property):
            lines.append(f"- `.{method}`: {inspect.getdoc(member.fget)}")
        else:
            told = " ".join((inspect.getdoc(member) or "").split())
            lines.append(f"- `.{' '.join(signature_of(member, method).split())}`: {told}")
    return [*lines, ""]


def errors_part() -> list[str]:
    """Return the part on errors: the tree, and a sentence on each."""
    tree = inspect.getdoc(errors) or ""
    begin = tree.index("KernelError")
    drawn = tree[begin : tree.index("\n\n", begin)]
    lines = [
        "## Errors",
        "",
        "All of them can be had from `kernel.exceptions`.",
        "",
        "```text",
        inspect.cleandoc(drawn),
        "```",
        "",
    ]
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, Exception):
            lines.append(f"- `{name}`: {inspect.getdoc(value)}")
    return [*lines, ""]


def command_part(path: str, command: click.Command) -> list[str]:
    """Return the part on a command, and those below it."""
    told = " ".join((command.help or "").split("\b")[0].split())
    arguments = " ".join(
        p.make_metavar(click.Context(command)) for p in command.params if isinstance(p, click.Argument)
    )
    lines = [f"### `{path}{' ' + arguments if arguments else ''}`", "", told, ""]
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            lines.append(f"- `{', '.join(option.opts)}`: {option.help}")
    lines.append("")
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):  # those that other distributions bring among them
            if below := command.get_command(context, name):
                lines += command_part(f"{path} {name}", below)
    return lines


def commands() -> dict[str, click.Command]:
    """Return the kernel's own commands (those of plugins belong to them)."""
    found = {}
    for name, (target, _) in COMMANDS.items():
        module, _, attribute = target.partition(":")
        found[name] = getattr(importlib.import_module(module), attribute)
    return found


def page() -> str:
    """Return the whole page."""
    lines = [
        "# Reference",
        "",
        "Every name that `import kernel` offers, every error, every command. Made from the code by",
        "`python docs/make_reference.py`; options of tasks and actors are in [users.md](users.md#every-option).",
        "",
    ]
    for title, names in GROUPS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += entry(name)
    lines += ["`kernel.exceptions` holds the errors below, `kernel.metrics` what counts ([metrics.md](metrics.md)),"]
    lines += ["`kernel.__version__` is the version as a string.", ""]
    lines += errors_part()
    lines += ["## The command line", ""]
    for name, command in commands().items():
        lines += command_part(f"kernel {name}", command)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
