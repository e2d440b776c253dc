"""`map_files`: a function over the files of a directory, in parallel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel_parallel.files import FileError, FileResults, map_files

import kernel
from kernel.exceptions import UsageError


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=2):
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    for number in range(12):
        (tmp_path / f"{number:02d}.txt").write_text("x" * number)
    (tmp_path / "deep" / "99.txt").write_text("deep")
    (tmp_path / "other.csv").write_text("1,2")
    return tmp_path


def size_of(path: Path) -> int:
    return len(path.read_text())


def test_results_are_in_the_order_of_names(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert map_files(size_of, folder, "*.txt") == list(range(12))
    assert "size_of: 100% 12/12" in capfd.readouterr().err
    assert map_files(size_of, str(folder), "**/*.txt", progress=False) == [*range(12), 4]
    assert map_files(lambda path: path.name, folder, "*.csv", progress=False, num_cpus=0.5) == ["other.csv"]
    assert map_files(size_of, folder, "*.nothing") == []


def test_lazy_results_are_made_while_they_are_gone_through(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    marks = tmp_path_factory.mktemp("marks")

    def mark(path: Path) -> str:
        (marks / path.name).touch()
        return path.stem

    results = map_files(mark, folder, "*.txt", progress=False, lazy=True)
    assert isinstance(results, FileResults) and len(results) == 12 and not list(marks.iterdir())
    items = iter(results)
    assert next(items) == "00" and len(list(marks.iterdir())) <= 8
    assert list(items) == [f"{number:02d}" for number in range(1, 12)]


def test_an_error_names_the_file(folder: Path) -> None:
    (folder / "05.txt").write_bytes(b"\xff")
    with pytest.raises(FileError, match=r"size_of\(\) failed on .*05\.txt: .*UnicodeDecodeError") as caught:
        map_files(size_of, folder, "*.txt", progress=False)
    assert caught.value.path == str(folder / "05.txt") and isinstance(caught.value.__cause__, UnicodeDecodeError)
    with pytest.raises(UsageError, match="is not a directory"):
        map_files(size_of, folder / "01.txt")
