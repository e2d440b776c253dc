"""The protocols that other distributions add to a proxy's port: how they are found, and what becomes of broken ones."""

from __future__ import annotations

import importlib.metadata
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest
from kernel_serve import installed
from kernel_serve.proxy.extra_protocols import GROUP, installed_protocols


class Fine:
    """As an entry point names it."""

    alpn, preface = "fine", b"FINE"


class Broken:
    """One that can't be made."""

    def __init__(self) -> None:
        raise ValueError("no")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the given classes installed as protocols, by name."""

    def install(**classes: str) -> None:
        points = [EntryPoint(name, f"{__name__}:{of}", GROUP) for name, of in classes.items()]
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points if group == GROUP else [])
        monkeypatch.setattr(EntryPoint, "load", lambda self: globals()[self.value.partition(":")[2]])

    return install


def test_without_any_there_are_none(install: Any) -> None:
    install()
    assert installed_protocols() == []


def test_what_is_installed_is_made(install: Any) -> None:
    install(fine="Fine")
    assert [each.alpn for each in installed_protocols()] == ["fine"]


def test_what_can_not_be_loaded_is_left_out_and_said(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    log = SimpleNamespace(warning=lambda text, **more: said.append((text, more)))
    monkeypatch.setattr(installed, "_log", log)
    install(wrong="Broken", missing="Missing", other="Fine")
    assert [each.alpn for each in installed_protocols()] == ["fine"]
    text = (
        "the proxy does not speak a protocol, and its clients get HTTP/1.1 instead: the entry point {!r} can't be "
        "loaded; reinstall its distribution, or uninstall it"
    )
    assert [each for each, _ in said] == [text.format("missing"), text.format("wrong")]
    assert [more["error"] for _, more in said] == ["KeyError('Missing')", "ValueError('no')"]
    assert said[1][1]["entry_point"] == f"{__name__}:Broken"
