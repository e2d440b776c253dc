"""The coordinator as clusters use it: its hosts and leases, over HTTP."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kernel_provider_local.leases import HostKind, HostLease
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CREDENTIALS, INVALID, UNKNOWN

CALL_SECONDS = 20.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class CoordinatorClient:
    """A lease table that is kept by the coordinator at `url`; `token` is its token, `ca_file` for its certificate."""

    def __init__(self, url: str, token: str, ca_file: str = "") -> None:
        self._url = url
        self._parts = urlsplit(url)
        self._token = token
        self._ca_file = ca_file
        host = self._parts.hostname
        if self._parts.scheme not in ("http", "https") or not host:
            raise NodeProviderError(f"url must be that of a coordinator, http://HOST:PORT, not {url!r}", code=INVALID)
        if self._parts.scheme == "http" and host not in LOOPBACK:
            text = f"{url} would send the coordinator's token in plain text; use https, or an SSH forward to 127.0.0.1"
            raise NodeProviderError(text, code=INVALID)

    def kinds(self) -> Mapping[str, HostKind]:
        """Return the groups of hosts by their names."""
        return {name: HostKind(**{**kind, "hosts": tuple(kind["hosts"])}) for name, kind in self._call("kinds").items()}

    def of_cluster(self, cluster: str) -> Sequence[HostLease]:
        """Return the leases of a cluster."""
        return [HostLease(**one) for one in self._call("of_cluster", cluster=cluster)]

    def take(self, cluster: str, kind: str, count: int, token: str) -> Sequence[HostLease]:
        """Lease up to `count` free hosts; for the token of an earlier call, return what is left of its leases."""
        return [HostLease(**one) for one in self._call("take", cluster=cluster, kind=kind, count=count, token=token)]

    def end(self, cluster: str, ids: Sequence[str]) -> None:
        """Mark leases as ended."""
        self._call("end", cluster=cluster, ids=list(ids))

    def release(self, cluster: str, ids: Sequence[str], failed: bool = False) -> None:
        """Free hosts on which nothing runs any more."""
        self._call("release", cluster=cluster, ids=list(ids), failed=failed)

    def _call(self, call: str, **said: Any) -> Any:
        connection = self._connection()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            connection.request("POST", f"{self._parts.path.rstrip('/')}/v1/{call}", json.dumps(said), headers)
            answer = json.loads(connection.getresponse().read())
            error = answer.get("error")
            if error is None:
                return answer["result"]
            code, message = str(error["code"]), str(error["message"])
        except (OSError, http.client.HTTPException) as failure:
            text = f"the coordinator at {self._url} can't be asked: {failure or type(failure).__name__}"
            raise NodeProviderError(text, code=UNKNOWN) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise NodeProviderError(f"what answers at {self._url} is no coordinator", code=INVALID) from None
        finally:
            connection.close()
        raise NodeProviderError(f"the coordinator at {self._url} says: {message}", code=code)

    def _connection(self) -> http.client.HTTPConnection:
        host, port = str(self._parts.hostname), self._parts.port
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=CALL_SECONDS)
        try:
            context = ssl.create_default_context(cafile=self._ca_file or None)
        except OSError as error:
            raise NodeProviderError(f"ca_file {self._ca_file} can't be read: {error}", code=INVALID) from None
        return http.client.HTTPSConnection(host, port, timeout=CALL_SECONDS, context=context)


def read_client(configuration: Mapping[str, Any]) -> CoordinatorClient:
    """Return the client that `configuration` describes. Raises NodeProviderError for what is missing."""
    file = str(configuration.get("token_file", ""))
    if not file:
        raise NodeProviderError("token_file must say where the coordinator's token is", code=INVALID)
    try:
        token = Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NodeProviderError(f"the coordinator's token can't be read: {error}", code=CREDENTIALS) from None
    return CoordinatorClient(str(configuration.get("url", "")), token, str(configuration.get("ca_file", "")))
