"""Directories of checkpoints, places of results, and copies elsewhere."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from fsspec.registry import known_implementations

from kernel_runs import CheckpointError, RunError
from kernel_runs.storage import copies, places
from kernel_runs.storage.copies import SyncCallback, check_address, copy_by_fsspec, is_remote, make_copy
from kernel_runs.storage.directories import (
    being_written,
    checkpoint_directories,
    clear_unfinished,
    damage_of,
    directory_name,
    pack,
    publish,
    sizes_of,
    unfinished_directory,
    unpack,
    written_as,
)


def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


# -- directories -------------------------------------------------------------------------------------------------------


def test_a_checkpoint_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    home = str(tmp_path)
    for text in ("first", "second"):
        with being_written(home, 3) as temporary:
            Path(temporary, "state").write_text(text)
            assert checkpoint_directories(home) == ([] if text == "first" else [(3, f"{home}/checkpoint_000003")])
            path = publish(temporary, os.path.join(home, directory_name(3)))
    assert path == f"{home}/checkpoint_000003" and texts(tmp_path) == {"checkpoint_000003/state": "second"}
    assert len(checkpoint_directories(home)) == 1
    unfinished = unfinished_directory(home, "end")
    assert unfinished.startswith(f"{home}/.checkpoint_") and unfinished.endswith("end")


def test_one_that_fails_leaves_nothing_and_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), being_written(str(tmp_path), 1):
        raise ZeroDivisionError
    for error in (
        OSError(errno.ENOSPC, "full"),
        OSError(errno.EDQUOT, "quota"),
        shutil.Error([("a", "b", "[Errno 28]")]),
    ):
        with (
            pytest.raises(
                CheckpointError,
                match=r"^the checkpoint after iteration 7 can't be written to .*: no space left .* bytes are",
            ),
            being_written(str(tmp_path), 7),
        ):
            raise error
    with pytest.raises(CheckpointError, match=r"continue from there: tell somebody$"):
        with being_written(str(tmp_path), 7, "tell somebody"):
            raise ValueError("what a trainable says of it") from OSError(errno.ENOSPC, "full")
    with pytest.raises(PermissionError), being_written(str(tmp_path), 1):
        raise PermissionError(errno.EACCES, "no")
    assert not list(tmp_path.iterdir())


def test_what_a_kill_left_is_cleared_and_what_was_about_to_be_replaced_is_put_back(tmp_path: Path) -> None:
    (tmp_path / ".checkpoint_half").mkdir()
    (tmp_path / ".old_x" / "checkpoint_000001").mkdir(parents=True)
    (tmp_path / ".old_y" / "checkpoint_000002").mkdir(parents=True)
    (tmp_path / "checkpoint_000002").mkdir()
    (tmp_path / "kept.txt").touch()
    clear_unfinished(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint_000001", "checkpoint_000002", "kept.txt"]


def test_checkpoints_are_listed_by_number_and_nothing_else_is(tmp_path: Path) -> None:
    for name in ("checkpoint_000010", "checkpoint_9", "checkpoint_", "my_checkpoint_000001", "checkpoint_000001.txt"):
        (tmp_path / name).mkdir()
    (tmp_path / "checkpoint_000003").touch()
    found = [(number, os.path.basename(path)) for number, path in checkpoint_directories(str(tmp_path))]
    assert found == [(9, "checkpoint_9"), (10, "checkpoint_000010")]
    assert (
        checkpoint_directories(str(tmp_path / "nowhere"))
        == []
        == checkpoint_directories(str(tmp_path / "checkpoint_000003"))
    )


def test_short_names_of_older_programs_are_understood(tmp_path: Path) -> None:
    (tmp_path / "checkpoint_000005" / "inner").mkdir(parents=True)
    (tmp_path / "checkpoint_6").mkdir()
    for given, meant in [
        ("checkpoint_5", "checkpoint_000005"), ("checkpoint_5/inner", "checkpoint_000005/inner"),
        ("checkpoint_6", "checkpoint_6"), ("checkpoint_7", "checkpoint_7"), ("state", "state"),
        ("my_checkpoint_5", "my_checkpoint_5"),
    ]:  # fmt: skip
        assert written_as(str(tmp_path / given)) == str(tmp_path / meant)


def test_damage_is_what_is_missing_or_too_short(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    unpack({"a": b"1234", "inner/b": b"12", ".metadata.json": b"{}"}, str(whole))
    assert pack(str(whole)) == {"a": b"1234", "inner/b": b"12", ".metadata.json": b"{}"}
    sizes = sizes_of(str(whole))
    assert sizes == {"a": 4, "inner/b": 2} and damage_of(str(whole), sizes) == "" == damage_of(str(whole), None)
    (whole / "a").write_text("123")
    assert damage_of(str(whole), sizes) == "its file a has 3 of 4 bytes"
    (whole / "a").write_text("longer than before")
    (whole / "inner" / "b").unlink()
    assert damage_of(str(whole), sizes) == "its file inner/b is missing"
    assert damage_of(str(tmp_path / "nowhere"), sizes) == "it does not exist"


# -- places ------------------------------------------------------------------------------------------------------------


def test_results_are_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_RESULT_DIR", "~/mine")
    assert places.results_directory() == os.path.expanduser("~/mine")
    monkeypatch.delenv("TUNE_RESULT_DIR")
    assert places.results_directory() == os.path.expanduser("~/kernel_results")


def test_a_name_is_one_that_nobody_has(tmp_path: Path) -> None:
    assert [places.unused_name(str(tmp_path), "a") for _ in range(3)] == ["a", "a_2", "a_3"]
    (tmp_path / "file").touch()
    assert places.unused_name(str(tmp_path / "file"), "b") == "b", "said when the run begins"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../x", "which is not below"), ("/elsewhere", "which is not below"), ("a/..", "which is not below"),
        ("a\0b", "no directory can have a NUL in its name"),
    ],
)  # fmt: skip
def test_a_name_that_leads_elsewhere_is_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=message):
        places.check_name(str(tmp_path), name)
    places.check_name(str(tmp_path), "a/b")


# -- copies ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    for name in ("result.json", "inner/a", ".hidden", ".half/b", "checkpoint_000001/.meta", "state", "log"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_what_is_new_is_copied_and_comes_back(source: Path, tmp_path: Path) -> None:
    target = f"file://{tmp_path}/target"
    copy_by_fsspec(str(source), target)
    expected = {name: name for name in ("result.json", "inner/a", "checkpoint_000001/.meta", "state", "log")}
    assert texts(tmp_path / "target") == expected
    (tmp_path / "target" / "inner" / "a").write_text("inner/b")  # as long, and younger
    (source / "state").write_text("longer than before")
    copy_by_fsspec(str(source), target)
    assert texts(tmp_path / "target") == {**expected, "inner/a": "inner/b", "state": "longer than before"}
    copy_by_fsspec(target, str(tmp_path / "back"))
    assert texts(tmp_path / "back") == texts(tmp_path / "target")
    with pytest.raises(RunError, match="there is nothing at memory://copies/nowhere"):
        copy_by_fsspec("memory://copies/nowhere", str(tmp_path))


def test_what_says_where_a_run_stands_is_of_the_beginning_and_comes_last(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_files, order = copies._files, []

    def late(folder: str, last: list[str]) -> list[tuple[str, str]]:
        found = list_files(folder, last)
        order.extend(relative for _, relative in found)
        (source / "log").write_text("late")
        (source / "result.json").unlink()
        return found

    monkeypatch.setattr(copies, "_files", late)
    copy_by_fsspec(str(source), f"file://{tmp_path}/target", ("log", "state"))
    assert order == ["checkpoint_000001/.meta", "inner/a", "result.json", "log", "state"]
    assert texts(tmp_path / "target")["log"] == "log" and "result.json" not in texts(tmp_path / "target")


def test_an_address_that_nobody_knows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(known_implementations, "far", {"class": "farfs.FileSystem", "err": "Install farfs"})
    for address, reason in [("nope://bucket", "Protocol not known: nope"), ("far://bucket", "Install farfs")]:
        with pytest.raises(RunError, match=f"nothing can be copied to {address}: .*{reason}"):
            check_address(address)
    check_address("memory://a")
    assert is_remote("s3://a") and not is_remote(Path("/a"))


def test_what_copies_is_what_users_give(source: Path, tmp_path: Path) -> None:
    def mine(one: str, other: str) -> None: ...

    class Syncer:
        def sync_up(self, one: str, other: str) -> str:
            return f"up {one} {other}"

        def sync_down(self, one: str, other: str) -> str:
            return f"down {one} {other}"

    assert make_copy(None) is None is make_copy(False)
    assert make_copy("auto") is copy_by_fsspec is make_copy(True) and make_copy("auto", mine) is mine is make_copy(mine)
    by_syncer: Any = make_copy(Syncer())
    assert by_syncer("a", "s3://b") == "up a s3://b" and by_syncer("s3://b", "a") == "down s3://b a"
    by_command: Any = make_copy("cp -r {source} {target}")
    by_command(str(source), str(tmp_path / "with a blank"))
    assert texts(tmp_path / "with a blank") == texts(source)
    with pytest.raises(RunError, match=r"the sync command ended with 1: cp -r .*nowhere.*\n.*No such file"):
        by_command(str(tmp_path / "nowhere"), str(tmp_path / "x"))
    for wrong in ("cp {source}", "cp {target}"):
        with pytest.raises(ValueError, match=r"must contain \{source\} and \{target\}"):
            make_copy(wrong)
    with pytest.raises(ValueError, match=r"a syncer is 'auto', a command .* or None, not 5"):
        make_copy(5)


def test_copies_are_made_now_and_then_and_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    made: list[tuple[str, str]] = []
    now, may_go = [0.0], threading.Event()

    def copy(source: str, target: str) -> None:
        made.append((source, target))
        may_go.wait(120)
        if len(made) == 2:
            raise OSError("no way there")

    callback = SyncCallback("/here", "s3://there", copy, period=10.0, clock=lambda: now[0])
    callback.on_step_end(1, [])
    assert made == []
    for moment in (10.0, 20.0):  # the second is due while the first is being made
        now[0] = moment
        callback.on_step_end(1, [])
    may_go.set()
    assert callback._thread is not None
    callback._thread.join(120)
    assert made == [("/here", "s3://there")]
    callback.on_step_end(2, [])
    callback._thread.join(120)
    assert "/here could not be copied to s3://there: no way there" in caplog.text
    callback.after_end()
    assert len(made) == 3


def test_a_last_copy_that_fails_says_where_everything_is() -> None:
    def fails(source: str, target: str) -> None:
        raise OSError("no way there")

    with pytest.raises(
        RunError, match=r"all of it is in /here, but could not be copied to s3://there: OSError: no way"
    ):
        SyncCallback("/here", "s3://there", fails).after_end()
