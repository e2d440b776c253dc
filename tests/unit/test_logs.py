"""Loggers of ours: what is logged first is written where `configure_later` says, whichever thread logs it."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from kernel import logs


def test_what_a_second_thread_logs_meanwhile_waits_until_logs_are_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, second_wrote, configured = threading.Event(), threading.Event(), threading.Event()
    written: list[tuple[str, bool]] = []

    def configure() -> None:
        begun.set()
        second_wrote.wait(0.3)  # which it does not, unless it forestalls this
        configured.set()

    def get_logger(name: str) -> SimpleNamespace:
        return SimpleNamespace(bind=lambda: SimpleNamespace(warning=lambda text: write(name)))

    def write(name: str) -> None:
        written.append((name, configured.is_set()))
        if name == "second":
            second_wrote.set()

    monkeypatch.setattr("structlog.get_logger", get_logger)
    monkeypatch.setattr(logs, "_configure", None)
    monkeypatch.setattr(logs, "_debug", False)
    logs.configure_later(configure, debug=False)
    first = threading.Thread(target=lambda: logs.Logger("first").warning("one"))
    first.start()
    assert begun.wait(120)
    logs.Logger("second").warning("two")
    first.join(120)
    assert sorted(written) == [("first", True), ("second", True)]
