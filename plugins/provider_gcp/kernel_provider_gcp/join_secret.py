"""Where the head is and the cluster's token, as machines find them: a secret of the Secret Manager."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from kernel_provider_gcp.errors import GoogleError
from kernel_provider_gcp.rest import GoogleRest

_ROLE = "roles/secretmanager.secretAccessor"


class JoinSecret:
    """Writes the secret of one cluster, when what it says changes, and lets the account of its machines read it."""

    def __init__(self, rest: GoogleRest, project: str, cluster: str) -> None:
        self._rest = rest
        self._parent = f"{rest.secrets}/projects/{project}/secrets"
        self._name = f"kernel-{cluster}-join"
        self.url = f"{self._parent}/{self._name}"
        self._written: tuple[str, str] | None = None

    def write(self, join: Mapping[str, Any], account: str) -> None:
        """Write what new nodes are told for joining; the service account `account` may read it. Raises GoogleError."""
        value = json.dumps(dict(join), sort_keys=True)
        if (value, account) == self._written:
            return
        what = f"write the secret {self._name}, by which machines join"
        try:
            self._rest.call(what, "POST", self._parent, {"replication": {"automatic": {}}}, secretId=self._name)
        except GoogleError as error:
            if error.status != 409:  # it is there already
                raise
        self._allow(account)
        data = base64.b64encode(value.encode()).decode()
        self._rest.call(what, "POST", f"{self.url}:addVersion", {"payload": {"data": data}})
        self._written = value, account

    def remove(self) -> None:
        """Remove the secret. Raises GoogleError."""
        try:
            self._rest.call(f"remove the secret {self._name}", "DELETE", self.url)
        except GoogleError as error:
            if error.status != 404:
                raise
        self._written = None

    def _allow(self, account: str) -> None:
        what = f"let {account} read the secret {self._name}"
        policy = self._rest.call(what, "GET", f"{self.url}:getIamPolicy")
        member, bindings = f"serviceAccount:{account}", list(policy.get("bindings", []))
        if any(one["role"] == _ROLE and member in one.get("members", []) for one in bindings):
            return
        bindings.append({"role": _ROLE, "members": [member]})
        self._rest.call(what, "POST", f"{self.url}:setIamPolicy", {"policy": {**policy, "bindings": bindings}})
