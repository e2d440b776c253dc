"""Join a cluster from outside, by `ray.client("host:port").connect()` and `ray.util.connect`."""

from __future__ import annotations

from typing import Any

from kernel_compat_ray import session


class ClientBuilder:
    """Gathers the settings of a connection; `connect()` joins the cluster."""

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._options: dict[str, Any] = {}

    def env(self, environment: dict[str, Any]) -> ClientBuilder:
        """Set the environment of the program."""
        self._options["runtime_env"] = environment
        return self

    def namespace(self, namespace: str) -> ClientBuilder:
        """Set the namespace."""
        self._options["namespace"] = namespace
        return self

    def connect(self) -> session.Context:
        """Join the cluster, or start a session of this machine when there is no address."""
        address = self._address
        if address and "://" not in address and address not in ("local", "auto"):
            address = f"ray://{address}"
        return session.init(address, **self._options)


def client(address: str | None = None, **options: Any) -> ClientBuilder:
    """Return a builder for a connection to the cluster at "HOST:PORT"."""
    return ClientBuilder(address)


def connect(address: str, **options: Any) -> session.Context:
    """Join the cluster at "HOST:PORT" from outside; returns what is known about it."""
    given = {name: value for name, value in options.items() if name in ("namespace", "runtime_env", "job_config")}
    return session.init(address if "://" in address else f"ray://{address}", **given)


def disconnect() -> None:
    """Leave the cluster."""
    session.shutdown()
