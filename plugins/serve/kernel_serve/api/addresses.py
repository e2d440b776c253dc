"""The addresses of the proxies, from what `serve.status()` returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def proxy_addresses(status: Mapping[str, Any]) -> list[str]:
    """Return where proxies take HTTP, as URLs."""
    schemes = {True: "https", False: "http"}
    found = {f"{schemes[bool(each.get('tls'))]}://{each['address']}" for each in _proxies(status) if each["address"]}
    return sorted(found)


def grpc_addresses(status: Mapping[str, Any]) -> list[str]:
    """Return where proxies take gRPC: addresses, and whether by TLS."""
    with_grpc = [each for each in _proxies(status) if each.get("grpc_address")]
    return sorted({each["grpc_address"] + (" (TLS)" if each.get("grpc_tls") else "") for each in with_grpc})


def _proxies(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the proxies that take requests. One that is being stopped takes no more."""
    return [each for each in (status.get("proxies") or {}).values() if each.get("status") != "DRAINING"]
