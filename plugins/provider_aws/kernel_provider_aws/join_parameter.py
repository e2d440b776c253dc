"""Where the head is and the cluster's token, as machines find them: a SecureString parameter of the Systems Manager."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kernel_provider_aws.clients import Clients
from kernel_provider_aws.errors import translating


class JoinParameter:
    """Writes the parameter of one cluster, when what it says changes."""

    def __init__(self, clients: Clients, cluster: str) -> None:
        self._clients = clients
        self.name = f"/kernel/{cluster}/join"
        self._written: str | None = None

    def write(self, join: Mapping[str, Any]) -> None:
        """Write what new nodes are told for joining. Raises NodeProviderError."""
        value = json.dumps(dict(join), sort_keys=True)
        if value == self._written:
            return
        with translating(f"write the parameter {self.name}, by which machines join"):
            self._clients["ssm"].put_parameter(Name=self.name, Value=value, Type="SecureString", Overwrite=True)
        self._written = value

    def remove(self) -> None:
        """Remove the parameter. Raises NodeProviderError."""
        with translating(f"remove the parameter {self.name}"):
            self._clients["ssm"].delete_parameters(Names=[self.name])
        self._written = None
