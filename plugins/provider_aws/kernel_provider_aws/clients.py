"""The clients of AWS's services, made when they are first needed."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

from kernel_provider_aws.errors import translating

CONNECT_SECONDS, ANSWER_SECONDS = 10.0, 60.0
"""Seconds that a connection and an answer may take. Nothing is repeated here: the autoscaler does that."""


class Clients:
    """Has one client for each service, in `region`, with the credentials of `profile` (None: as boto3 finds them)."""

    def __init__(self, region: str | None, profile: str | None) -> None:
        self._given = (region, profile)
        self._session: Any = None
        self._made: dict[str, Any] = {}

    def __getitem__(self, service: str) -> Any:
        """Return the client of a service, such as "ec2". Raises NodeProviderError where there can be none."""
        if service not in self._made:
            with translating(f"use the service {service}"):
                config = Config(
                    connect_timeout=CONNECT_SECONDS,
                    read_timeout=ANSWER_SECONDS,
                    retries={"total_max_attempts": 1, "mode": "standard"},
                )
                self._made[service] = self._opened().client(service, config=config)
        return self._made[service]

    @property
    def region(self) -> str:
        """Return the region."""
        return str(self["ec2"].meta.region_name)

    @property
    def partition(self) -> str:
        """Return the partition of the region: aws, aws-cn, ..."""
        return str(self._opened().get_partition_for_region(self.region))

    def _opened(self) -> Any:
        if self._session is None:
            region, profile = self._given
            self._session = boto3.Session(region_name=region, profile_name=profile)
        return self._session
