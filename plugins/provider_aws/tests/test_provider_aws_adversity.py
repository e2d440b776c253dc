"""The provider over a cloud that fails: nothing made twice, nothing forgotten."""

from __future__ import annotations

import pytest

from plugins.provider_aws.tests.aws_adversity import run
from plugins.provider_aws.tests.aws_providers import clients
from plugins.provider_aws.tests.ec2_stand_in import Ec2StandIn


@pytest.mark.parametrize("seed", (2,))
def test_a_cloud_that_fails_leaves_nothing_double_and_nothing_behind(seed: int, ec2: Ec2StandIn) -> None:
    assert run(ec2, clients(""), seed) == []
