"""What holds for the tests of our tools, which run pytest themselves."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quick_pytest(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let the pytest that a test starts load few plugins, and not remove what earlier runs of all tests have left."""
    tmp_path_factory.getbasetemp()  # that of this process lasts longer than the folder below
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist.plugin -p pytest_timeout -p _hypothesis_pytestplugin")
    with tempfile.TemporaryDirectory(prefix="pt-") as folder:  # a short path: tests bind sockets in it
        monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", folder)
        yield
