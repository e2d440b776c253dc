"""The provider against the suite of providers, and over a cloud that fails."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from kernel.conformance.node_provider import NodeProviderConformance
from plugins.provider_gcp.tests.gcp_providers import configuration, make_provider, run
from plugins.provider_gcp.tests.google_stand_in import GoogleStandIn


class TestGcp(NodeProviderConformance):
    """Machines that boot for a moment, in lists of one a page."""

    running_seconds = 30.0
    gone_seconds = 30.0
    google: ClassVar[GoogleStandIn]
    made: ClassVar[dict[int, dict[str, Any]]] = {}

    @classmethod
    def make_provider(cls) -> Any:
        given = configuration()
        provider = make_provider(cls.google, given)
        cls.made[id(provider)] = given
        return provider

    @classmethod
    def reopen_provider(cls, provider: Any) -> Any:
        return make_provider(cls.google, cls.made[id(provider)])

    @pytest.fixture(autouse=True)
    def use(self, google: GoogleStandIn) -> None:
        type(self).google = google
        google.boot_seconds, google.page_size, google.looks_needed = 0.2, 1, 3


@pytest.mark.parametrize("seed", range(4))
def test_a_cloud_that_fails_leaves_nothing_double_and_nothing_behind(seed: int, google: GoogleStandIn) -> None:
    assert run(google, seed) == []
