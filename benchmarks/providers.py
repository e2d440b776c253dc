"""Run node providers of clouds through clouds that fail, and heads that die.

    python -m benchmarks.providers [aws] [gcp] [--seeds 200]

For each seed machines are ordered and ended while answers get lost, lists are late, calls come too fast and zones have
no capacity (`kernel.conformance.provider_adversity`). Nothing may be made twice or be left.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import click


def aws() -> Callable[[int], list[str]]:
    """Return what runs a seed with the provider `aws`, over moto and a layer before it."""
    from kernel_provider_aws.clients import Clients

    from plugins.provider_aws.tests import aws_adversity
    from plugins.provider_aws.tests.ec2_stand_in import Ec2StandIn

    ec2 = Ec2StandIn(time.monotonic)
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "user",
        "AWS_SECRET_ACCESS_KEY": "secret-word",
        "AWS_DEFAULT_REGION": "us-west-2",
        "AWS_ENDPOINT_URL": ec2.endpoint,
    }
    clients = Clients("us-west-2", None)
    return lambda seed: aws_adversity.run(ec2, clients, seed)


def gcp() -> Callable[[int], list[str]]:
    """Return what runs a seed with the provider `gcp`, over a stand-in that is checked by Google's descriptions."""
    from plugins.provider_gcp.tests import gcp_providers
    from plugins.provider_gcp.tests.google_stand_in import GoogleStandIn

    google = GoogleStandIn(time.monotonic)
    return lambda seed: gcp_providers.run(google, seed)


CLOUDS = {"aws": aws, "gcp": gcp}


@click.command()
@click.argument("clouds", nargs=-1, type=click.Choice(list(CLOUDS)))
@click.option("--seeds", default=200, show_default=True, help="Runs of each provider.")
def main(clouds: tuple[str, ...], seeds: int) -> None:
    """Print a row for each provider."""
    failed = False
    for name in clouds or tuple(CLOUDS):
        run = CLOUDS[name]()
        begun = time.monotonic()
        wrong = {seed: found for seed in range(seeds) if (found := run(seed))}
        print(f"{name}: {seeds} seeds in {time.monotonic() - begun:.0f} s, {len(wrong)} wrong {wrong or ''}")
        failed = failed or bool(wrong)
    sys.exit(failed)


if __name__ == "__main__":
    main()
