"""The store in a file keeps the contract, its file private, and what was put through kill -9."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pluggy
import pytest
from kernel_metadata_sqlite import plugin
from kernel_metadata_sqlite.store import FILE_NAME, SqliteMetadataStore

from kernel.conformance.metadata_store import MetadataStoreConformance
from kernel_spec import hooks
from kernel_spec.errors import MetadataError

WRITER = """
import sys
from kernel_metadata_sqlite.store import SqliteMetadataStore
store = SqliteMetadataStore(sys.argv[1])
for number in range(10**9):
    store.put("table", b"%09d" % number, b"x" * 100)
    store.put_many("pairs", {b"left": b"%d" % number, b"right": b"%d" % number})
    print(number, flush=True)
"""


class TestSqlite(MetadataStoreConformance):
    make_store = staticmethod(SqliteMetadataStore)


def start_writer(directory: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE, text=True, env=environment
    )


def test_every_put_that_returned_survives_kill(tmp_path: Path) -> None:
    for lines in (1, 57, 400):
        writer = start_writer(tmp_path)
        assert writer.stdout is not None
        seen = [int(writer.stdout.readline()) for _ in range(lines)]
        writer.send_signal(signal.SIGKILL)
        seen += [int(line) for line in writer.stdout.read().split("\n")[:-1]]
        writer.wait()
        writer.stdout.close()
        store = SqliteMetadataStore(str(tmp_path))
        assert len(list(store.scan("table"))) >= len(seen)
        assert store.get("table", b"%09d" % seen[-1]) == b"x" * 100
        pairs = dict(store.scan("pairs"))
        assert pairs[b"left"] == pairs[b"right"], "half of a put_many is there"
        assert int(pairs[b"left"]) >= seen[-1]
        store.close()


def test_the_file_and_its_companions_are_private(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        store = SqliteMetadataStore(str(tmp_path))
        store.put("table", b"key", b"value")
    finally:
        os.umask(mask)
    files = list(tmp_path.iterdir())
    assert FILE_NAME in {file.name for file in files}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    store.close()


def test_a_file_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).touch(mode=0o644)
    SqliteMetadataStore(str(tmp_path)).close()
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_a_second_head_is_refused(tmp_path: Path) -> None:
    store = SqliteMetadataStore(str(tmp_path))
    with pytest.raises(MetadataError, match="is locked: another head uses this session directory"):
        SqliteMetadataStore(str(tmp_path), lock_seconds=0.05)
    store.put("table", b"key", b"value")
    store.close()
    SqliteMetadataStore(str(tmp_path)).close()


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match="can't open the metadata file .*nowhere.*No such file or directory"):
        SqliteMetadataStore(str(tmp_path / "nowhere"))


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MetadataError, match="can't open the metadata file"):
        SqliteMetadataStore(str(tmp_path))
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path) -> None:
    content = b"these are not the bytes of a database" * 100
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(MetadataError, match=r"is damaged \(file is not a database\).*move it away"):
        SqliteMetadataStore(str(tmp_path))
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    store = SqliteMetadataStore(str(tmp_path))
    store.put_many("table", {b"%d" % number: b"x" * 1000 for number in range(200)})
    store.close()
    with open(tmp_path / FILE_NAME, "r+b") as file:
        file.seek(8192)
        file.write(os.urandom(50_000))
    with pytest.raises(MetadataError, match="is damaged"):
        SqliteMetadataStore(str(tmp_path))


def test_a_full_disk_loses_nothing_and_passes(tmp_path: Path) -> None:
    store = SqliteMetadataStore(str(tmp_path))
    store.put("table", b"old", b"value")
    connection = store._connection
    assert isinstance(connection, sqlite3.Connection)
    connection.execute("PRAGMA max_page_count = 20")
    with pytest.raises(MetadataError, match="no room left for the metadata file .*nothing was changed"):
        store.put_many("table", {b"%d" % number: b"x" * 4000 for number in range(100)})
    assert list(store.scan("table")) == [(b"old", b"value")]
    connection.execute("PRAGMA max_page_count = 100000")
    store.put("table", b"new", b"value")
    store.close()


def test_offers_itself_by_name(tmp_path: Path) -> None:
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(plugin)
    manager.check_pending()
    (offered,) = manager.hook.kernel_metadata_stores()
    store = offered["sqlite"](str(tmp_path))
    assert isinstance(store, SqliteMetadataStore) and store.path.parent == tmp_path
    store.close()
    assert manager.hook.kernel_contracts() == [{"metadata_store": 1}]
