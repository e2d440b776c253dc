"""What a shell is given to complete a line with, beside commands and options: names of plugins and of their kinds."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from kernel.cli.main import cli
from kernel.plugins import PluginManager
from kernel_spec.errors import OptionError


def completed(line: str) -> set[str]:
    """Return what completes the last word of a line; a line that ends with a space has an empty one."""
    *words, last = line.split(" ")
    return {item.value for item in ShellComplete(cli, {}, "kernel", "_KERNEL_COMPLETE").get_completions(words, last)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("plug", {"plugins"}),
        ("plugins new obj", {"object_store"}),
        ("plugins info loc", {"local"}),
        ("plugins check loc", {"local"}),
        ("start --scheduler loc", {"local"}),
        ("start --object-store loc", {"local"}),
        ("start --metadata-store mem", {"memory"}),
        ("start --spill-target dis", {"disk"}),
        ("start --serializer nobody-has-this", set()),
        ("start --head-service nobody-has-this", set()),
    ],
)
def test_names_are_completed(line: str, expected: set[str]) -> None:
    assert completed(line) == expected


def test_all_kinds_are_offered_where_one_is_wanted() -> None:
    assert {"scheduler", "library", "node_provider"} < completed("plugins new ")
    assert completed("plugins new scheduler ") == set(), "the second word is the author's"


def test_where_plugins_can_not_be_found_nothing_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> PluginManager:
        raise OptionError("kernel.toml is damaged")

    monkeypatch.setattr(PluginManager, "discover", fail)
    assert completed("start --scheduler ") == set()
