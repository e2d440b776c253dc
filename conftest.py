"""What holds for all tests of the repository."""

from __future__ import annotations

import pytest
import structlog


@pytest.fixture(scope="module", autouse=True)
def unconfigured_logging() -> None:
    """Let no module of tests inherit how `kernel.init` set up logging in another."""
    structlog.reset_defaults()
