"""The claims of the pages on configuration and autoscaling."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import click
import kernel_serve.examples
from kernel_serve.autoscaling.policy import AutoscalingContext
from kernel_serve.cli.main import serve
from kernel_serve.config.reading import read
from kernel_serve.settings import AutoscalingConfig, DeploymentSettings, GRPCOptions, HTTPOptions
from kernel_serve.testing.traces import play, trace_of

DOCS = Path(__file__).resolve().parents[4] / "docs"
AUTOSCALING = (DOCS / "serve-autoscaling.md").read_text(encoding="utf-8")
SERVE = (DOCS / "serve.md").read_text(encoding="utf-8")
README = (DOCS.parent / "plugins" / "serve" / "README.md").read_text(encoding="utf-8")
CONFIG = (DOCS / "serve-config.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of code in a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def first_cells(page: str) -> set[str]:
    """Return the names in the first cells of a page's tables."""
    return {name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)}


def test_every_setting_of_autoscaling_is_described() -> None:
    assert {each.name for each in dataclasses.fields(AutoscalingConfig)} <= first_cells(AUTOSCALING)


def test_the_defaults_are_those_of_the_settings() -> None:
    defaults = AutoscalingConfig()
    for names, said in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([\d, ]+) \|", AUTOSCALING, re.MULTILINE):
        values = [getattr(defaults, name) for name in re.findall(r"`(\w+)`", names)]
        assert values == [float(value) for value in said.split(", ")], names


def test_everything_that_a_policy_is_told_is_described() -> None:
    names = {each.name for each in dataclasses.fields(AutoscalingContext)} | {"requests"}
    assert names <= first_cells(AUTOSCALING)


def test_the_example_of_a_trace_plays() -> None:
    (text,) = blocks(AUTOSCALING, "json")
    assert play(trace_of(json.loads(text)), AutoscalingConfig(max_replicas=20)).requests > 20_000


def test_the_example_of_a_test_passes() -> None:
    (text,) = (block for block in blocks(AUTOSCALING, "python") if "play(" in block)
    names: dict[str, Any] = {}
    exec(text, names)  # the example asserts
    assert names["outcome"].requests > 0 and max(names["outcome"].targets()) > 1, "and what it asserts could fail"


def test_the_example_of_a_policy_answers() -> None:
    (text,) = (block for block in blocks(AUTOSCALING, "python") if "office_hours" in block)
    names: dict[str, object] = {}
    exec(text.split("\n\n\n")[0], names)
    context = AutoscalingContext(AutoscalingConfig(), now=0, current_target=1, ready=1, queued=200, ongoing=0)
    assert names["office_hours"](context) == 100  # type: ignore[operator]


def test_the_example_of_a_file_reads() -> None:
    (text,) = blocks(CONFIG, "yaml")
    config = read(text)
    (shop,) = config.applications
    assert [each.name for each in shop.deployments] == ["Model", "Front"]
    assert config.endpoints[0].sticky == "header:x-user"


def test_every_command_is_described() -> None:
    table = CONFIG[CONFIG.index("## Commands") : CONFIG.index("## The REST API")]
    described = {cell.split()[0] for cell in first_cells(table)}
    assert isinstance(serve, click.Group)
    assert {"run", "deploy", "status", "config", "build", "start", "simulate", "shutdown"} <= described
    assert described <= set(serve.commands)


def rows(page: str) -> dict[str, str]:
    """Return the second cell of each row of a page's tables, by the names in the first."""
    cells = re.findall(r"^\| (`.*?) \| (.*?) \|", page, re.MULTILINE)
    return {name: said for first, said in cells for name in re.findall(r"`([^`]+)`", first)}


def test_every_setting_has_a_row_with_its_default() -> None:
    part = SERVE[SERVE.index("## Every setting") : SERVE.index("## How quick it is")]
    tables = part.split("| setting")
    for table, kind in zip(tables[1:], (DeploymentSettings, HTTPOptions, GRPCOptions), strict=True):
        described = rows(table)
        known = {"autoscaling_config" if each.name == "autoscaling" else each.name for each in dataclasses.fields(kind)}
        assert known == set(described) - {"name", "version"}
        for name in known & {each.name for each in dataclasses.fields(kind)}:
            value, said = getattr(kind(), name), described[name]
            if isinstance(value, (int, float)):
                assert str(value) == said or f"{value:g}" in said.split(", "), f"{name}: {said}, not {value}"


def test_every_example_is_described() -> None:
    examples = Path(kernel_serve.examples.__file__).parent.glob("*.py")
    names = {path.stem for path in examples} - {"__init__", "words_rpc"}
    for page in (SERVE, README):
        assert names <= first_cells(page), names - first_cells(page)
