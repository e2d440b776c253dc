"""The table, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from kernel_spec.errors import HeadReplacedError, MetadataError

FILE_NAME = "metadata.sqlite3"
LOCK_SECONDS = 5.0
"""Seconds that opening waits for another head that still holds the file."""

_SCHEMA = "CREATE TABLE IF NOT EXISTS entries (name TEXT, key BLOB, value BLOB NOT NULL, PRIMARY KEY (name, key))"
_CLAIMS = "CREATE TABLE IF NOT EXISTS claims (epoch INTEGER PRIMARY KEY, owner BLOB NOT NULL)"
_PUT = "INSERT INTO entries VALUES (?, ?, ?) ON CONFLICT (name, key) DO UPDATE SET value = excluded.value"
_PUT_NEW = "INSERT INTO entries VALUES (?, ?, ?) ON CONFLICT DO NOTHING"

Result = TypeVar("Result")


class SqliteMetadataStore:
    """Keys and values in the file `metadata.sqlite3` of a directory, readable by its owner alone.

    A call that returned has reached the operating system: the death of this process loses nothing, a power cut may
    lose the last moments but never breaks the file. The file is held exclusively, so two heads can't share it. Any
    thread may call; calls wait for one another.
    """

    name = "sqlite"
    durable = True

    def __init__(self, directory: str, *, lock_seconds: float = LOCK_SECONDS) -> None:
        """Open or make the file in `directory`, waiting up to `lock_seconds` for another holder.

        Raises MetadataError when that can't be, or when the file is not a sound database.
        """
        self.path = Path(directory) / FILE_NAME
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._claimed_by: bytes | None = None
        """The latest claim on the file before it was opened here; no other process can claim it while it is open."""
        try:
            _make_private(self.path)
        except OSError as problem:
            raise MetadataError(
                f"can't open the metadata file {self.path}: {problem.strerror}. "
                "The session directory must exist and belong to the user who starts the head"
            ) from problem
        self._connection = sqlite3.connect(
            self.path, timeout=lock_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            self._claimed_by = self._run(_prepare)
        except MetadataError:
            self.close()
            raise

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value, or None."""
        row = self._run(
            lambda database: database.execute(
                "SELECT value FROM entries WHERE name = ? AND key = ?", (table, key)
            ).fetchone()
        )
        return row[0] if row is not None else None

    def put(self, table: str, key: bytes, value: bytes, *, overwrite: bool = True) -> bool:
        """Store the value and return True; with `overwrite=False` and the key there, change nothing, return False."""
        statement = _PUT if overwrite else _PUT_NEW
        return self._change(lambda database: database.execute(statement, (table, key, value)).rowcount) > 0

    def put_many(self, table: str, items: Mapping[bytes, bytes]) -> None:
        """Store all of `items` or, if it raises, none."""
        rows = [(table, key, value) for key, value in items.items()]

        def put_all(database: sqlite3.Connection) -> None:
            with _transaction(database):
                database.executemany(_PUT, rows)

        self._change(put_all)

    def delete(self, table: str, key: bytes) -> bool:
        """Remove the key; return whether it was there."""
        statement = "DELETE FROM entries WHERE name = ? AND key = ?"
        return self._change(lambda database: database.execute(statement, (table, key)).rowcount) > 0

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the pairs whose key starts with `prefix`, in key order, as of the call."""
        statement = "SELECT key, value FROM entries WHERE name = ? AND key >= ?"
        arguments: tuple[object, ...] = (table, prefix)
        end = _after(prefix)
        if end is not None:
            statement, arguments = f"{statement} AND key < ?", (*arguments, end)
        rows = self._run(lambda database: database.execute(f"{statement} ORDER BY key", arguments).fetchall())
        return iter(rows)

    def claim(self, owner: bytes) -> int:
        """Become the only one that may write, also for those who open the file later; return the claim's epoch."""

        def claim(database: sqlite3.Connection) -> int:
            with _transaction(database):
                database.execute("INSERT INTO claims (owner) VALUES (?)", (owner,))
                (epoch,) = database.execute("SELECT max(epoch) FROM claims").fetchone()
                database.execute("DELETE FROM claims WHERE epoch < ?", (epoch,))
            return int(epoch)

        epoch = self._run(claim)
        self._claimed_by = None
        return epoch

    def discard(self) -> None:
        """Let go and remove the file, unless another has claimed it."""
        self.close()
        if self._claimed_by is None:
            for companion in ("", "-wal", "-shm"):
                Path(f"{self.path}{companion}").unlink(missing_ok=True)

    def close(self) -> None:
        """Flush and let go. A second call does nothing."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _change(self, action: Callable[[sqlite3.Connection], Result]) -> Result:
        if self._claimed_by is not None:
            raise HeadReplacedError(
                f"the metadata file {self.path} was claimed by {self._claimed_by.decode(errors='replace')}: "
                "nothing was changed. A head that starts claims the file first, and one that was replaced must stop"
            )
        return self._run(action)

    def _run(self, action: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._lock:
            if self._connection is None:
                raise MetadataError(
                    f"the metadata file {self.path} was closed: nothing can be read or stored until a "
                    "head opens it anew"
                )
            try:
                return action(self._connection)
            except sqlite3.Error as problem:
                raise MetadataError(_meaning(self.path, problem)) from problem


def _make_private(path: Path) -> None:
    """Make the file, if it is not there, and see that only its owner can open it. SQLite's side files follow."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        os.fchmod(file, 0o600)
    finally:
        os.close(file)


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # a full disk has rolled back already
            database.execute("ROLLBACK")
        raise


def _prepare(database: sqlite3.Connection) -> bytes | None:
    """Make the tables, check the file, and return who has claimed it, if anybody has."""
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.execute("PRAGMA journal_mode = WAL")
    # A commit is then one write to the log, which outlives this process; only a power cut needs more.
    database.execute("PRAGMA synchronous = NORMAL")
    with _transaction(database):
        database.execute(_SCHEMA)
        database.execute(_CLAIMS)
    problems = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problems != "ok":
        raise sqlite3.DatabaseError(f"malformed: {problems}")
    claim = database.execute("SELECT owner FROM claims ORDER BY epoch DESC").fetchone()
    return claim[0] if claim is not None else None


def _after(prefix: bytes) -> bytes | None:
    """Return the first key after all that start with `prefix`; None when there is no such key."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def _meaning(path: Path, problem: sqlite3.Error) -> str:
    text = str(problem)
    if "locked" in text or "busy" in text:
        return (
            f"the metadata file {path} is locked: another head uses this session directory. "
            "Stop that one, or start this one with a directory of its own"
        )
    if "full" in text:
        return f"no room left for the metadata file {path} ({text}). Free some space on that disk; nothing was changed"
    if "malformed" in text or "not a database" in text:
        return (
            f"the metadata file {path} is damaged ({text}). Put a copy of it back, "
            "or move it away to start with an empty one"
        )
    if "readonly" in text:
        return f"the metadata file {path} can't be written ({text}). Make the file and its directory writable"
    return f"the metadata file {path} failed: {text}"
