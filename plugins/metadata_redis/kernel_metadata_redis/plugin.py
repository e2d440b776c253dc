"""The hooks of this distribution. Redis' client is imported when the store is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernel_spec.hooks import hookimpl
from kernel_spec.metadata import MetadataStore


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"metadata_store": 1}


@hookimpl
def kernel_metadata_stores() -> Mapping[str, Callable[[str], MetadataStore]]:
    """Offer the metadata store `redis`."""
    return {"redis": open_store}


def open_store(
    directory: str,
    *,
    url: str = "redis://127.0.0.1:6379/0",
    password_file: str | None = None,
    prefix: str = "kernel:{session}:",
    timeout_seconds: float = 5.0,
    patience_seconds: float = 10.0,
) -> MetadataStore:
    """Open the store of the session in `directory`; raise MetadataError when it can't be relied on.

    `url` begins with redis://, rediss:// (TLS) or unix://. The password stands there, or in `password_file`, which is
    read whenever a connection is made. Keys begin with `prefix`, in which `{session}` becomes the session's name. An
    answer may take `timeout_seconds`; a Redis that is gone is waited for up to `patience_seconds`.
    """
    from kernel_metadata_redis.store import RedisMetadataStore

    return RedisMetadataStore(
        directory,
        url=url,
        password_file=password_file,
        prefix=prefix,
        timeout_seconds=timeout_seconds,
        patience_seconds=patience_seconds,
    )
