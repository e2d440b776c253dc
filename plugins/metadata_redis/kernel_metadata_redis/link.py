"""The connection to Redis: it is made again when it breaks, and waited for with bounded patience."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from kernel_metadata_redis.address import Address
from kernel_metadata_redis.problems import is_passing, meaning
from kernel_spec.errors import MetadataError

FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 0.5

Result = TypeVar("Result")


class RedisLink:
    """One Redis. An answer may take `timeout_seconds`.

    A Redis that is of no use is asked again for up to `patience_seconds` from when it was first lost; after that each
    call asks once more, so that a head is not held up again and again. Not safe to use from several threads at once.
    """

    def __init__(self, address: Address, timeout_seconds: float, patience_seconds: float) -> None:
        self.place = address.shown
        self.patience_seconds = patience_seconds
        self._lost_at: float | None = None
        self._open = True
        try:
            self._client: Any = redis.Redis.from_url(
                address.url,
                credential_provider=address.login,
                socket_timeout=timeout_seconds,
                socket_connect_timeout=timeout_seconds,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
            )
        except (ValueError, TypeError, RedisError) as problem:
            raise MetadataError(
                f"the option url of the metadata store redis can't be used: {problem}; correct it"
            ) from problem

    def script(self, text: str) -> Any:
        """Return the script for use inside `run`; its text is sent only if Redis does not know it."""
        return self._client.register_script(text)

    def run(self, action: Callable[[Any], Result]) -> Result:
        """Return `action(client)`; it is repeated while Redis is away. Raises MetadataError."""
        if not self._open:
            raise MetadataError(
                f"the connection to the Redis at {self.place} was closed: nothing can be read or stored until a "
                "head opens the store anew"
            )
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                result = action(self._client)
            except RedisError as problem:
                now = time.monotonic()
                if self._lost_at is None:
                    self._lost_at = now
                waited = now - self._lost_at
                if not is_passing(problem) or waited + pause > self.patience_seconds:
                    if not is_passing(problem):
                        self._lost_at = None
                    raise MetadataError(meaning(self.place, problem, waited)) from problem
                self._client.connection_pool.disconnect()  # its name may mean another server by now
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            else:
                self._lost_at = None
                return result

    def close(self) -> None:
        """Let go. A second call does nothing."""
        self._open = False
        self._client.close()
