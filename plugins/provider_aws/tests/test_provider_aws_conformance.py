"""The provider against the suite of providers, with EC2's stand-in: late lists, pages, machines that are pending."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.conformance.node_provider import NodeProviderConformance
from plugins.provider_aws.tests.aws_providers import configuration, make_provider
from plugins.provider_aws.tests.ec2_stand_in import Ec2StandIn


class TestAws(NodeProviderConformance):
    """Machines that are pending for a moment."""

    running_seconds = 30.0
    gone_seconds = 30.0
    made: dict[int, dict[str, Any]] = {}

    @staticmethod
    def make_provider() -> Any:
        given = configuration()
        provider = make_provider(given)
        TestAws.made[id(provider)] = given
        return provider

    @staticmethod
    def reopen_provider(provider: Any) -> Any:
        return make_provider(TestAws.made[id(provider)])

    @pytest.fixture(autouse=True)
    def unlike_moto(self, ec2: Ec2StandIn) -> None:
        ec2.pending_seconds, ec2.lag_seconds, ec2.page_size = 0.2, 0.2, 1
