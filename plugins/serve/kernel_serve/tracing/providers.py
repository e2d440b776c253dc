"""Providers and exporters of OpenTelemetry for a setting."""

from __future__ import annotations

import importlib
import os
from importlib.metadata import entry_points
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from kernel_serve.errors import DeploymentError

_EXPORTERS = "opentelemetry_traces_exporter"
"""The group of entry points in which OpenTelemetry's packages offer exporters."""

_ours: TracerProvider | None = None
"""The provider that this process has set for all of its code, which it can do once."""


def provider_for(setting: Any, component: str, id: str) -> Any:
    """Return the provider for this process: one that the program has set already, or a new one, which is set.

    Raises DeploymentError for an unknown exporter, and whatever the user's function raises.
    """
    global _ours
    there_is = trace.get_tracer_provider()
    if isinstance(there_is, TracerProvider) and there_is is not _ours and setting in (None, True):
        return there_is
    attributes = {"service.instance.id": id or str(os.getpid()), "kernel.serve.component": component}
    if "OTEL_SERVICE_NAME" not in os.environ:
        attributes["service.name"] = "kernel-serve"
    provider = TracerProvider(resource=Resource.create(attributes))
    for each in _listed(_function(setting)()) if setting not in (None, True) else _by_variables():
        if not isinstance(each, (SpanProcessor, SpanExporter)):
            raise DeploymentError(
                f"the function for tracing returned a {type(each).__name__}, not an exporter or a processor of spans"
            )
        provider.add_span_processor(each if isinstance(each, SpanProcessor) else BatchSpanProcessor(each))
    if not isinstance(there_is, TracerProvider):
        trace.set_tracer_provider(provider)  # spans of user code go the same way
        _ours = provider
    return provider


def _function(setting: Any) -> Any:
    if not isinstance(setting, str):
        return setting
    module, _, name = setting.partition(":")
    return getattr(importlib.import_module(module), name)


def _listed(returned: Any) -> list[Any]:
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def _by_variables() -> list[Any]:
    names = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    return [_exporter(name.strip()) for name in names.split(",")]


def _exporter(name: str) -> Any:
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    for found in entry_points(group=_EXPORTERS, name=name):
        return found.load()()
    raise DeploymentError(
        f"there is no exporter {name!r} of traces (OTEL_TRACES_EXPORTER); the usual one is in the package "
        "opentelemetry-exporter-otlp"
    )
