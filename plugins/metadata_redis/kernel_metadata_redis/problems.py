"""The meaning of each error of Redis, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

from redis import exceptions

_CODES: Mapping[type[Exception], str] = {
    exceptions.ReadOnlyError: "READONLY",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.NoPermissionError: "NOPERM",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.ClusterDownError: "CLUSTERDOWN",
    exceptions.TryAgainError: "TRYAGAIN",
    exceptions.BusyLoadingError: "LOADING",
}
"""Codes that the client removes from the texts of errors that it has a class for."""

_FINAL = (exceptions.AuthenticationError, exceptions.AuthorizationError)
_PASSING = ("READONLY", "MASTERDOWN", "NOREPLICAS", "BUSY ", "TRYAGAIN", "CLUSTERDOWN", "LOADING")
"""Answers of a Redis that is unavailable for a moment: it fails over, loads its data, or runs a long script."""

_MEANINGS = (
    ("OOM", "has no memory left", "Raise its maxmemory, or remove what others keep there; nothing was changed"),
    ("READONLY", "is a read-only replica", "Name the primary in the option url; nothing was changed"),
    ("MISCONF", "can't write its data to its disk", "See its log, and make room there; nothing was changed"),
    ("NOREPLICAS", "has too few replicas to accept changes", "Start them, or lower min-replicas-to-write"),
    ("MASTERDOWN", "is a replica that has lost its primary", "Name the primary in the option url"),
    ("CLUSTERDOWN", "is part of a Redis Cluster that is down", "Name a single server or primary in the option url"),
    ("MOVED", "is part of a Redis Cluster", "Name a single server or primary in the option url"),
    ("NOPERM", "does not allow that to this user", "Let the user run all commands on the keys of the option prefix"),
    ("WRONGTYPE", "has a key of another kind there", "Another program uses these keys: say another prefix"),
)


def is_passing(problem: exceptions.RedisError) -> bool:
    """Return whether asking again in a moment may help."""
    text = _text(problem)
    if isinstance(problem, (exceptions.ConnectionError, exceptions.TimeoutError)):
        return not isinstance(problem, _FINAL) and "certificate" not in text
    return any(word in text for word in _PASSING)


def meaning(place: str, problem: exceptions.RedisError, waited_seconds: float) -> str:
    """Return a sentence for people. `waited_seconds` is for how long Redis has not been of use."""
    text = _text(problem)
    for word, what, advice in _MEANINGS:
        if word in text:
            return f"the Redis at {place} {what} ({text}). {advice}"
    if isinstance(problem, _FINAL):
        return (
            f"the Redis at {place} refused the login ({text}). "
            "Say the right password in the option url, or in the file that password_file names"
        )
    if isinstance(problem, (exceptions.ConnectionError, exceptions.TimeoutError)):
        return (
            f"the Redis at {place} has not answered for {waited_seconds:.1f} s ({text}). See whether it runs and can "
            "be reached from here. What was stored before is not touched, a change that was under way may have been "
            "made; the next call tries again"
        )
    return f"the Redis at {place} failed: {text}"


def _text(problem: exceptions.RedisError) -> str:
    code = next((code for kind, code in _CODES.items() if isinstance(problem, kind)), "")
    return str(problem) if code in str(problem) else f"{code} {problem}"
