"""What holds for the tests of our tools, which run pytest themselves."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the pytest that a test starts load few plugins, which halves its start."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist.plugin -p pytest_timeout -p _hypothesis_pytestplugin")
