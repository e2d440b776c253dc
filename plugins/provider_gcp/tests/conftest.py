"""A stand-in for Google's services."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from plugins.provider_gcp.tests.google_stand_in import GoogleStandIn


@pytest.fixture(scope="session")
def google_server() -> Iterator[GoogleStandIn]:
    """Start a server for all tests."""
    server = GoogleStandIn(time.monotonic)
    yield server
    server.stop()


@pytest.fixture
def google(google_server: GoogleStandIn) -> Iterator[GoogleStandIn]:
    """Return a server on which nothing is yet, and on which nothing was asked that Google does not know."""
    google_server.forget()
    yield google_server
    problems = list(google_server.problems)
    google_server.forget()
    assert problems == []
