"""Check once, when a head starts, what a Redis keeps and how durably."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis.exceptions import NoPermissionError, RedisError, ResponseError

from kernel_metadata_redis.link import RedisLink
from kernel_spec.errors import MetadataError

ALWAYS = "every change is on its disk before the call returns (appendfsync always)"
EACH_SECOND = (
    "changes survive the end of its process; a power cut of its machine may lose the last second (appendfsync everysec)"
)
NOW_AND_THEN = (
    "changes survive the end of its process; a power cut of its machine may lose the last half minute (appendfsync no)"
)
SNAPSHOTS = "a Redis that ends loses what was changed since its last snapshot (appendonly no)"
NOTHING = "a Redis that ends loses everything (appendonly no, no snapshots)"
UNKNOWN = "it does not tell this user what it keeps on disk (INFO and CONFIG GET are not allowed)"

GOOD = (ALWAYS, EACH_SECOND)


def inspect(link: RedisLink) -> str:
    """Return one of the sentences above. Raises MetadataError when Redis could not keep what it is given."""
    info = link.run(_info)
    if info is None:
        return UNKNOWN
    if info.get("role") == "slave":
        raise MetadataError(
            f"the Redis at {link.place} is a read-only replica of {info.get('master_host')}:{info.get('master_port')}. "
            "Name that one in the option url"
        )
    if info.get("maxmemory") and str(info.get("maxmemory_policy", "")).startswith("allkeys"):
        raise MetadataError(
            f"the Redis at {link.place} is a cache: at {info['maxmemory']} bytes it removes keys by itself "
            f"(maxmemory-policy {info['maxmemory_policy']}), and metadata would be lost. "
            "Set its maxmemory-policy to noeviction, or use another Redis"
        )
    settings = link.run(_settings)
    if info.get("aof_enabled"):
        return {"always": ALWAYS, "no": NOW_AND_THEN}.get(settings.get("appendfsync", ""), EACH_SECOND)
    return NOTHING if settings.get("save") == "" else SNAPSHOTS


def _info(client: Any) -> Mapping[str, Any] | None:
    try:
        info: Mapping[str, Any] = client.info()
    except ResponseError as problem:
        if isinstance(problem, NoPermissionError):
            return None
        raise
    return info


def _settings(client: Any) -> Mapping[str, str]:
    """Return its settings; empty when it refuses to say, as managed services do."""
    found: dict[str, str] = {}
    for name in ("appendfsync", "save"):
        try:
            answer = client.config_get(name)
        except RedisError as problem:
            if not isinstance(problem, ResponseError):
                raise
            continue
        found |= {_text(key): _text(value) for key, value in answer.items()}
    return found


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
