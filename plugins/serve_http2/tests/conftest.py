"""Fixtures of the tests of HTTP/2."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_serve.testing.certificates import write_certificates


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Paths of a certificate for 127.0.0.1, which is its own authority, and of its key."""
    folder: Path = tmp_path_factory.mktemp("certificates")
    write_certificates(folder)
    return str(folder / "server.pem"), str(folder / "server.key")
