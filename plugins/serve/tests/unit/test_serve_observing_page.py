"""The page about what one sees of Serve says what is there."""

from __future__ import annotations

import asyncio
import re
from dataclasses import fields
from pathlib import Path

import pytest
from kernel_serve.metrics import models
from kernel_serve.metrics.controller import ControllerMetrics
from kernel_serve.metrics.gathering import Gatherer
from kernel_serve.metrics.process import watch_loop, watch_process
from kernel_serve.metrics.proxy import ProxyMetrics
from kernel_serve.metrics.registry import ServeRegistry
from kernel_serve.metrics.replica import ReplicaMetrics
from kernel_serve.metrics.routers import watch_router
from kernel_serve.settings import LoggingConfig
from kernel_serve.tracing.setting import wanted

PAGE = (Path(__file__).parents[4] / "docs" / "serve-observing.md").read_text(encoding="utf-8")


def counted(registry: ServeRegistry) -> dict[str, tuple[str, ...]]:
    return {family.name: family.labels for family in registry.snapshot().families}


def test_the_table_of_metrics_has_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ServeRegistry()
    monkeypatch.setattr(models, "REGISTRY", registry)
    ProxyMetrics(registry, "p")
    ReplicaMetrics(registry, "a", "d", "r").watch(lambda: 0, lambda: 0, lambda: ())
    watch_router(registry, "proxy p", dict)
    watch_process(registry, "proxy", "p")
    ControllerMetrics(registry)
    models.BatchMetrics("f")
    models.ModelMetrics("f")

    async def rest() -> dict[str, tuple[str, ...]]:
        watch_loop(registry, "proxy", "p", asyncio.get_running_loop())

        async def nobody() -> None:
            raise TimeoutError

        (account,) = await Gatherer(nobody).gather()
        return {family.name: family.labels for family in account.families}

    there = {**asyncio.run(rest()), **counted(registry)}
    rows = re.findall(r"^\| `(serve_\w+)` \| ([\w, ]+) \|", PAGE, re.MULTILINE)
    assert {name: tuple(labels.split(", ")) for name, labels in rows} == there


def test_the_table_of_logging_has_all_settings_with_their_defaults() -> None:
    section = PAGE.split("| `logging_config` |")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", section, re.MULTILINE))
    shown = {"none": None, '`"TEXT"`': "TEXT", '`"INFO"`': "INFO", "`False`": False, "`()`": ()}
    assert {name: shown[text] for name, text in rows.items()} == {
        each.name: each.default for each in fields(LoggingConfig)
    }


def test_the_variables_that_are_named_turn_traces_on_and_off() -> None:
    named = set(re.findall(r"OTEL_\w+", PAGE))
    assert named == {
        "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED", "OTEL_TRACES_SAMPLER"
    }  # fmt: skip
    assert wanted({"OTEL_TRACES_EXPORTER": "otlp"}) and wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"})
    assert not wanted({"OTEL_TRACES_SAMPLER": "always_on"})


def test_the_picture_is_there() -> None:
    (path,) = re.findall(r"!\[.*\]\((.*)\)", PAGE)
    assert (Path(__file__).parents[4] / "docs" / path).stat().st_size > 10_000
