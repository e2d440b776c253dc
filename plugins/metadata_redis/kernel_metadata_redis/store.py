"""The table of keys and values."""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import threading
from collections.abc import Iterator, Mapping

from kernel_metadata_redis import scripts
from kernel_metadata_redis.address import Address
from kernel_metadata_redis.inspection import GOOD, inspect
from kernel_metadata_redis.link import RedisLink
from kernel_spec.errors import HeadReplacedError, MetadataError

SESSION = "{session}"
"""The placeholder of the session's name in a prefix."""
GOODBYE_SECONDS = 1.0
"""Seconds that the end of a session waits for a Redis that is gone."""


class RedisMetadataStore:
    """Keys and values of one session in a Redis. Any thread may call; calls wait for one another.

    A call that is cut off is made again on a new connection, and has happened once even if Redis had carried it out
    before. See `plugin.open_store` for the arguments. `durability` says in a sentence what survives the end of Redis;
    that of the head survives everything.
    """

    name = "redis"
    durable = True

    def __init__(
        self,
        directory: str,
        *,
        url: str,
        password_file: str | None = None,
        prefix: str = f"kernel:{SESSION}:",
        timeout_seconds: float = 5.0,
        patience_seconds: float = 10.0,
    ) -> None:
        session = os.path.basename(os.path.abspath(directory))
        self.prefix = prefix.replace(SESSION, session)
        self._is_of_one_session = SESSION in prefix
        self._claim_key, self._tables_key = f"{self.prefix}claim".encode(), f"{self.prefix}tables".encode()
        self._token = b""
        """What proves that the latest claim is this store's; empty while it has made none."""
        self._sender = secrets.token_hex(8)
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._link = RedisLink(Address(url, password_file), timeout_seconds, patience_seconds)
        self._change_script = self._link.script(scripts.CHANGE)
        self._claim_script = self._link.script(scripts.CLAIM)
        self._scan_script = self._link.script(scripts.SCAN)
        self._discard_script = self._link.script(scripts.DISCARD)
        try:
            self.durability = inspect(self._link)
        except MetadataError:
            self._link.close()
            raise
        if self.durability not in GOOD:
            logging.getLogger(__name__).warning("the Redis at %s: %s", self._link.place, self.durability)

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value, or None."""
        with self._lock:
            value: bytes | None = self._link.run(lambda client: client.hget(self._table(table), _bytes(key)))
        return value

    def put(self, table: str, key: bytes, value: bytes, *, overwrite: bool = True) -> bool:
        """Store the value and return True; with `overwrite=False` and the key there, change nothing, return False."""
        return self._change("put" if overwrite else "put_new", table, [_bytes(key), _bytes(value)])

    def put_many(self, table: str, items: Mapping[bytes, bytes]) -> None:
        """Store all of `items` or, if it raises, none."""
        if items:
            self._change("put", table, [_bytes(part) for pair in items.items() for part in pair])

    def delete(self, table: str, key: bytes) -> bool:
        """Remove the key; return whether it was there."""
        return self._change("delete", table, [_bytes(key)])

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the pairs whose key starts with `prefix`, in key order, as of the call."""
        with self._lock:
            if not prefix:
                return iter(sorted(self._link.run(lambda client: client.hgetall(self._table(table))).items()))
            found = self._link.run(lambda client: self._scan_script([self._table(table)], [_bytes(prefix)], client))
        return iter(sorted(zip(found[::2], found[1::2], strict=True)))

    def claim(self, owner: bytes) -> int:
        """Become the only one that may write, and return the claim's epoch."""
        token = secrets.token_hex(16).encode()
        with self._lock:
            epoch: int = self._link.run(
                lambda client: self._claim_script([self._claim_key], [token, _bytes(owner)], client)
            )
            self._token = token
        return epoch

    def discard(self) -> None:
        """Remove everything of this session and let go; what is under a prefix that sessions share stays."""
        self._link.patience_seconds = min(self._link.patience_seconds, GOODBYE_SECONDS)
        try:
            if self._is_of_one_session:
                with self._lock:
                    keys = [self._claim_key, self._tables_key]
                    self._link.run(lambda client: self._discard_script(keys, [self._token], client))
        finally:
            self.close()

    def close(self) -> None:
        """Let go. A second call does nothing."""
        with self._lock:
            self._link.close()

    def _table(self, name: str) -> bytes:
        return f"{self.prefix}table:{name}".encode()

    def _change(self, verb: str, table: str, arguments: list[bytes]) -> bool:
        keys = [self._claim_key, self._table(table), self._tables_key]
        # What answers otherwise when it is repeated needs a number, by which its repetition is known.
        request = b"" if verb == "put" else f"{self._sender}-{next(self._numbers)}".encode()
        with self._lock:
            whole = [self._token, request, verb, *arguments]
            outcome, answer = self._link.run(lambda client: self._change_script(keys, whole, client))
        if outcome == b"refused":
            raise self._refusal(answer)
        return bool(answer)

    def _refusal(self, owner: bytes | None) -> MetadataError:
        where = f"the metadata under {self.prefix!r} in the Redis at {self._link.place}"
        if owner is None:
            return MetadataError(
                f"{where} is gone, and with it the claim of this head: that Redis was emptied, or was started again "
                "without what it held. Nothing was changed; end this head, and start one anew"
            )
        return HeadReplacedError(
            f"{where} was claimed by {owner.decode(errors='replace')}: nothing was changed. "
            "A head that starts claims it first, and one that was replaced must stop"
        )


def _bytes(value: object) -> bytes:
    """Return the bytes of what is given; raises TypeError for what has none."""
    return value if isinstance(value, bytes) else bytes(memoryview(value))  # type: ignore[arg-type]
