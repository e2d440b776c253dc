"""Checkpoints: of directories, dicts, bytes and addresses, and each of these again."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import zipfile
from pathlib import Path

import fsspec
import pytest

from kernel_runs import Checkpoint, CheckpointError


@pytest.fixture
def written(tmp_path: Path) -> Checkpoint:
    """A checkpoint of two files, one of them in a folder."""
    folder = tmp_path / "written"
    (folder / "inner").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(bytes(range(256)))
    (folder / "inner" / "notes.txt").write_text("deep")
    return Checkpoint.from_directory(folder)


def files_of(directory: str | os.PathLike[str]) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in Path(directory).rglob("*") if path.is_file()
    }


def test_a_directory_is_where_it_is_and_is_copied_when_asked(written: Checkpoint, tmp_path: Path) -> None:
    assert written.is_local and written.path == str(tmp_path / "written")
    with written.as_directory() as directory:
        assert directory == written.path
    assert os.path.isdir(written.path)
    copy = written.to_directory()
    assert copy != written.path and files_of(copy) == files_of(written.path)
    assert written.to_directory(tmp_path / "wanted") == str(tmp_path / "wanted")
    assert files_of(tmp_path / "wanted") == files_of(written.path)
    shutil.rmtree(copy)


def test_a_directory_that_went_away_is_named(tmp_path: Path) -> None:
    gone = Checkpoint.from_directory(tmp_path / "gone")
    for use in (lambda: gone.as_directory().__enter__(), gone.to_directory, gone.to_bytes, gone.to_dict):
        with pytest.raises(CheckpointError, match=r"^checkpoint .*/gone does not exist \(any more\)"):
            use()
    with pytest.raises(CheckpointError, match=r"checkpoint memory://nowhere/at/all does not exist"):
        Checkpoint("memory://nowhere/at/all").to_directory()
    assert gone.get_metadata() == {} and gone.get_preprocessor() is None


def test_the_directory_of_a_dict_goes_with_its_checkpoint_unless_another_process_may_need_it() -> None:
    checkpoint = Checkpoint.from_dict({"step": 1})
    path = checkpoint.path
    assert checkpoint.to_dict() == {"step": 1}
    del checkpoint
    assert not os.path.exists(path)

    sent = Checkpoint.from_dict({"step": 2})
    received = pickle.loads(pickle.dumps(sent))
    del sent
    assert received.to_dict() == {"step": 2}
    shutil.rmtree(received.path)


def test_what_was_made_of_files_is_no_dict(written: Checkpoint) -> None:
    with pytest.raises(CheckpointError, match=r"^checkpoint .* was made of files, not of a dict: use as_directory\(\)"):
        written.to_dict()


def test_bytes_have_all_files_and_are_the_same_for_the_same_files(written: Checkpoint, tmp_path: Path) -> None:
    written.set_metadata({"step": 3})
    data = written.to_bytes()
    os.utime(os.path.join(written.path, "weights.bin"), (0, 0))
    assert written.to_bytes() == data and Checkpoint.from_directory(written.to_directory()).to_bytes() == data
    again = Checkpoint.from_bytes(data)
    assert files_of(again.path) == files_of(written.path) and again.get_metadata() == {"step": 3}
    path = again.path
    del again
    assert not os.path.exists(path), "nobody else has it"
    assert Checkpoint.from_bytes(Checkpoint.from_dict({"a": 1}).to_bytes()).to_dict() == {"a": 1}


def test_bytes_depend_on_contents_alone(tmp_path: Path) -> None:
    names = [f"{letter}/{number}" for letter in "hgfedcba" for number in (2, 1)]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "empty").mkdir()
    with zipfile.ZipFile(io.BytesIO(Checkpoint.from_directory(tmp_path).to_bytes())) as archive:
        assert archive.namelist() == sorted(names)
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}


def test_other_bytes_are_refused_and_none_leads_out_of_the_directory() -> None:
    with pytest.raises(CheckpointError, match=r"^11 bytes are not a checkpoint .*: give what Checkpoint.to_bytes\(\)"):
        Checkpoint.from_bytes(b"hello there")
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("../../outside.txt", "evil")
    made = Checkpoint.from_bytes(data.getvalue())
    assert files_of(made.path) == {"outside.txt": b"evil"}


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_an_address_holds_it_and_it_comes_back(written: Checkpoint, tmp_path: Path, kind: str) -> None:
    uri = f"{kind}://{tmp_path}/kept/one"
    written.update_metadata({"step": 1})
    assert written.to_uri(uri) == uri
    there = Checkpoint.from_uri(uri)
    assert there.is_local == (kind == "file")
    with there.as_directory() as directory:
        assert files_of(directory) == files_of(written.path)
    assert os.path.exists(directory) == (kind == "file"), "what was fetched goes again"
    assert Checkpoint.from_bytes(there.to_bytes()).get_metadata() == {"step": 1}


def test_metadata_are_noted_replaced_and_added_to(written: Checkpoint) -> None:
    remote = Checkpoint.from_uri(written.to_uri("memory://metadata/one"))
    for checkpoint in (written, remote, Checkpoint("/metadata/one", fsspec.filesystem("memory"))):
        checkpoint.set_metadata({"a": 1, "b": [2]})
        checkpoint.update_metadata({"b": 3})
        assert checkpoint.get_metadata() == {"a": 1, "b": 3}
        checkpoint.set_metadata({"c": None})
        assert checkpoint.get_metadata() == {"c": None}
    with pytest.raises(TypeError, match="not JSON serializable"):
        written.set_metadata({"a": object()})


class Scaler:
    """As much of a preprocessor as is needed here."""

    def __init__(self, mean: float) -> None:
        self.mean = mean


def test_a_preprocessor_travels_with_it(written: Checkpoint) -> None:
    assert written.get_preprocessor() is None
    assert written.with_preprocessor(Scaler(2.0)) is written
    assert Checkpoint.from_bytes(written.to_bytes()).get_preprocessor().mean == 2.0
    remote = Checkpoint.from_uri(written.to_uri("memory://preprocessed/one"))
    assert remote.get_preprocessor().mean == 2.0
    assert remote.with_preprocessor(lambda batch: batch * 3).get_preprocessor()(2) == 6, "by value, where it must be"
    of_dict = Checkpoint.from_dict({"a": 1}).with_preprocessor(Scaler(1.0))
    assert of_dict.to_dict() == {"a": 1}


def test_two_are_equal_when_they_are_at_one_place() -> None:
    one, same, other = Checkpoint("/a"), Checkpoint(Path("/a")), Checkpoint("/a", fsspec.filesystem("memory"))
    assert one == same and hash(one) == hash(same) and one != other and one != "/a"
    assert repr(one) == "Checkpoint(path='/a')"
