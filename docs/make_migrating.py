"""Writes the tables of docs/migrating.md, between their marks, from the table of the plugin compat_ray.

python docs/make_migrating.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from kernel_compat_ray import command_words, names, option_names
from kernel_compat_ray.environment import DEFAULTS, NOT_NEEDED, NOT_READ, OTHERS, READ_BY_INIT, VARIABLES
from kernel_compat_ray.exceptions import STAND_INS

PAGE = Path(__file__).parent / "migrating.md"
SECTION = re.compile(r"(<!-- (\w+): written by docs/make_migrating.py -->\n).*?(<!-- end -->\n)", re.DOTALL)
OURS = "kernel_compat_ray"


def shown(target: str) -> str:
    """Return what a name has become, for people: kernel's own name, or nothing where a name is as it was."""
    module, _, attribute = target.partition(":")
    if module == ".exceptions":
        ours = [f"{error.__module__}.{error.__name__}" for error, cls in STAND_INS.items() if cls.__name__ == attribute]
        return ours[0].replace("kernel_spec.errors", "kernel.exceptions") if ours else ""
    return "" if module.startswith(".") else f"{module}.{attribute}".replace("builtins.", "")


def names_table() -> str:
    """Return a row per module with its names; those that have another name in kernel say which."""
    whole = [module for module in names.LIBRARIES if "*" not in names.NAMES.get(module, {})]
    rows = [f"| `{module}` | all of `kernel.{names.LIBRARIES[module]}` |" for module in whole]
    for module, found in names.NAMES.items():
        constants = {full.rpartition(".")[2]: "" for full in names.CONSTANTS if full.rpartition(".")[0] == module}
        listed = [listed_name(name, target) for name, target in {**found, **constants}.items()]
        if listed:
            rows.append(f"| `{module}` | {', '.join(listed)} |")
    return table("module", "names, and what they are where that is another name", rows)


def listed_name(name: str, target: str) -> str:
    """Return one name of a module as it is listed."""
    if name == "*":
        return f"all of `{target}`"
    new = shown(target) if target else ""
    same = not new or new.rpartition(".")[2] == name
    return f"`{name}`" if same else f"`{name}` (`{new}`)"


def old_names_table() -> str:
    """Return a row per name or module that has moved since."""
    moved = {**names.RENAMED, **{f"{old}.*": f"{new}.*" for old, new in names.MODULES_RENAMED.items()}}
    return table("old", "today", [f"| `{old}` | `{new}` |" for old, new in sorted(moved.items())])


def options_table() -> str:
    """Return a row per option and argument that is spelled otherwise, does nothing, or is refused."""
    rows = pairs({**option_names.OPTIONS_RENAMED, **option_names.OPTIONS_TRANSLATED}, "option", "`{}`")
    rows += pairs(option_names.OPTIONS_IGNORED, "option", "nothing: {}")
    rows += pairs(option_names.OPTIONS_REFUSED, "option", "refused: {}")
    rows += pairs({**option_names.INIT_RENAMED, **option_names.INIT_TRANSLATED}, "`ray.init`", "`{}`")
    rows += pairs(option_names.INIT_IGNORED, "`ray.init`", "nothing: {}")
    rows += pairs(option_names.INIT_REFUSED, "`ray.init`", "refused: {}")
    return table("argument", "of", rows, "on kernel")


def pairs(found: Mapping[str, str], where: str, form: str) -> list[str]:
    """Return a row per argument."""
    return [f"| `{name}` | {where} | {form.format(text)} |" for name, text in sorted(found.items())]


def refused_table() -> str:
    """Return a row per name or module that can't be honoured."""
    rows = [f"| `{name}` | {reason} |" for name, reason in sorted({**names.REFUSED, **names.MODULES_REFUSED}.items())]
    return table("name", "why not, or what to use instead", rows)


def commands_table() -> str:
    """Return a row per command, and per option of `ray start` that is spelled otherwise."""
    rows = [
        f"| `ray {name}` | {target[1:] if target.startswith('-') else f'`kernel {target}`'} |"
        for name, target in sorted(command_words.COMMANDS.items())
    ]
    renamed = {old: new for old, new in command_words.START_OPTIONS.items() if old != new}
    rows += [f"| `ray start {old}` | `kernel start {new}` |" for old, new in sorted(renamed.items())]
    rows += [f"| `{old}` | `{new}` |" for old, new in VARIABLES.items()]
    rows += [f"| `{name}` | `{value}`, unless it is set |" for name, value in DEFAULTS.items()]
    rows += [f"| `{name}` | read by `ray.init` |" for name in READ_BY_INIT if name not in VARIABLES]
    rows += [f"| `{name}` | {text} |" for name, text in OTHERS.items()]
    rows += [f"| `{name}` | not read, with a warning: {text} |" for name, text in NOT_READ.items()]
    rows += [f"| `{name}` | not needed: {text} |" for name, text in NOT_NEEDED.items()]
    return table("Ray", "kernel", rows)


def table(*columns: str | Iterable[str]) -> str:
    """Return a table of Markdown: names of columns, and one list of rows."""
    heads = [column for column in columns if isinstance(column, str)]
    rows = [row for column in columns if not isinstance(column, str) for row in column]
    return "\n".join([f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *rows]) + "\n"


def page(text: str) -> str:
    """Return the page `text` with its tables as they should be."""
    made = {
        "names": names_table,
        "old": old_names_table,
        "arguments": options_table,
        "refused": refused_table,
        "commands": commands_table,
    }
    return SECTION.sub(lambda found: f"{found[1]}\n{made[found[2]]()}\n{found[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
