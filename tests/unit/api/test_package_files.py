"""What of a directory travels with a runtime environment: what git would not ignore, and not more than is promised."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as some

from kernel.api import package_files
from kernel.api.package_files import find_files, pack
from kernel.testing.programs import need
from kernel_spec.errors import RuntimeEnvError

_opened: list[str] | None = None


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _opened is not None and event == "open" and isinstance(arguments[0], str):
        _opened.append(arguments[0])


sys.addaudithook(_hear)


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """Have every file noted that is opened inside the block."""
    global _opened
    _opened = []
    try:
        yield _opened
    finally:
        _opened = None


def tree(root: Path, **files: str) -> Path:
    """Write files below `root`; in their names `__` stands for `/`, and `DOT` for `.`."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names(root: Path, *excludes: str) -> list[str]:
    return [file.name for file in find_files(str(root), "", excludes)]


# -- what is left out --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ("", "a.txt b.log build/out.o build/keep.txt src/build/x.o src/a.txt"),
        ("*.o", "a.txt b.log build/keep.txt src/a.txt"),
        ("build", "a.txt b.log src/a.txt"),
        ("build/", "a.txt b.log src/a.txt"),
        ("/build", "a.txt b.log src/build/x.o src/a.txt"),
        ("src/build", "a.txt b.log build/out.o build/keep.txt src/a.txt"),
        ("*.txt\n!a.txt", "a.txt b.log build/out.o src/build/x.o src/a.txt"),
        ("build/*\n!build/keep.txt", "a.txt b.log build/keep.txt src/build/x.o src/a.txt"),
        ("build\n!build/keep.txt", "a.txt b.log src/a.txt"),
        ("**/build", "a.txt b.log src/a.txt"),
        ("src/**", "a.txt b.log build/out.o build/keep.txt"),
        ("# a comment\n\n  \n[ab].*", "build/out.o build/keep.txt src/build/x.o"),
        ("*\n!*.log\n!*/", "b.log"),
        ("a.txt/", "a.txt b.log build/out.o build/keep.txt src/build/x.o src/a.txt"),
    ],
)
def test_what_a_gitignore_says_is_left_out(tmp_path: Path, lines: str, kept: str) -> None:
    files = "a.txt", "b.log", "build/out.o", "build/keep.txt", "src/build/x.o", "src/a.txt"
    tree(tmp_path, **{name.replace("/", "__"): "x" for name in files}, DOTgitignore=lines)
    assert sorted(names(tmp_path, "/.gitignore")) == sorted(kept.split())


def test_excludes_have_the_last_word(tmp_path: Path) -> None:
    tree(tmp_path, DOTgitignore="data\n*.log\n", data__big="x", a__b_log="x", out__DOTgitignore="!k.log", out__k="x")
    (tmp_path / "out" / "k.log").write_text("x")
    assert names(tmp_path) == [".gitignore", "a/b_log", "out/.gitignore", "out/k", "out/k.log"]
    assert names(tmp_path, "!data", "*.log", ".gitignore") == ["a/b_log", "data/big", "out/k"]
    assert "data/big" in names(tmp_path, "!*"), "so that nothing is left out"


def test_what_is_nobodys_source_is_never_packed(tmp_path: Path) -> None:
    tree(tmp_path, DOTgit__config="x", a____pycache__="", DOTvenv__x="x", b="x", DOTgitignore="!*")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "b.pyc").write_text("x")
    assert "b" in names(tmp_path, "!*")
    assert not [name for name in names(tmp_path, "!*") if ".git/" in name or "__pycache__/" in name or ".venv" in name]


_PIECES = r"* ** / a b c ab .x ? [ab] [!a] [^b-c] [[:alpha:]] []a] [a ] ! # \ \* - [b-a] [a-] **/ /**".split()  # noqa: SIM905
_PATTERN = some.lists(some.sampled_from([*_PIECES, " ", "\r"]), max_size=6).map("".join)
_PATTERN = _PATTERN.filter(lambda text: not re.search(r"[^/*]\*\*", text))  # there git doesn't do what it documents
_NAMES = ("a", "b", "ab", "c.x", "a b", "-", "[a", "*", "#a", "!b", "a ")


@hypothesis.given(top=some.lists(_PATTERN, max_size=4), below=some.lists(_PATTERN, max_size=3))
@hypothesis.settings(
    max_examples=60, suppress_health_check=list(hypothesis.HealthCheck), phases=[hypothesis.Phase.generate]
)
def test_git_leaves_out_the_same(tmp_path_factory: pytest.TempPathFactory, top: list[str], below: list[str]) -> None:
    need("git")
    root = tmp_path_factory.mktemp("repository")
    directories = [root, root / "a", root / "ab" / "a", root / "c" / "b" / "a"]
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)
    for path in (directory / name for directory in directories for name in _NAMES):
        if not path.exists():
            path.touch()
    (root / ".gitignore").write_text("\n".join(top), newline="")
    (root / "ab" / ".gitignore").write_text("\n".join(below), newline="")
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(root), "XDG_CONFIG_HOME": str(root)}
    listing = ["git", "ls-files", "--others", "--exclude-standard", "-z"]
    subprocess.run(["git", "init", "-q"], cwd=root, env=environment, check=True)
    said = subprocess.run(listing, cwd=root, env=environment, check=True, capture_output=True).stdout
    assert set(names(root)) == set(filter(None, said.decode().split("\0")))


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_too_much_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    tree(tmp_path, a__small="x", b="y")
    (tmp_path / "a" / "large").touch()
    os.truncate(tmp_path / "a" / "large", 3 << 30)
    os.truncate(tmp_path / "b", 2 << 20)
    with (
        opened_files() as opened,
        pytest.raises(RuntimeEnvError) as caught,
        pack(str(tmp_path), "", ()),
    ):
        pass
    assert not [path for path in opened if path.startswith(str(tmp_path))]
    assert str(caught.value) == (
        f"{tmp_path} can't be packed: its files have more than 512 MB, found so far mostly in a (3072 MB); leave it "
        "out with runtime_env['excludes'] or in a .gitignore, and put large data where every node can read it"
    )
    with pack(str(tmp_path), "", ["large"]) as archive, zipfile.ZipFile(archive) as package:
        assert package.namelist() == ["a/small", "b"]


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, grows="x" * 2000)
    monkeypatch.setattr(package_files, "MAXIMUM_BYTES", 1000)
    monkeypatch.setattr(package_files, "_file", lambda name, path, status: package_files.File(name, path, 10, 0o600))
    with pytest.raises(RuntimeEnvError, match="can't be packed: .*grows grows while it is read"):
        pack(str(tmp_path), "", ())


def test_links_are_followed_and_what_is_no_file_is_left_out(tmp_path: Path) -> None:
    tree(tmp_path, outside__data__one="1", outside__two="2", project__three="3")
    project = tmp_path / "project"
    (project / "linked").symlink_to(tmp_path / "outside" / "data")
    (project / "two").symlink_to("../outside/two")
    (project / "nothing").symlink_to("nowhere")
    (project / "itself").symlink_to("itself")
    os.mkfifo(project / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(project / "socket"))
    listener.close()
    with pack(str(project), "", ()) as archive, zipfile.ZipFile(archive) as package:
        assert {name: package.read(name) for name in package.namelist()} == {
            "linked/one": b"1", "three": b"3", "two": b"2",
        }  # fmt: skip
    assert names(project, "linked/") == ["three", "two"]


def test_a_link_to_a_directory_that_it_is_in_is_refused_by_name(tmp_path: Path) -> None:
    tree(tmp_path, a__b__c="x")
    (tmp_path / "a" / "b" / "again").symlink_to(tmp_path / "a")
    text = f"{tmp_path}/a/b/again can't be packed: it is a link to {tmp_path}/a, which contains the link; leave it out"
    with pytest.raises(RuntimeEnvError, match=text):
        names(tmp_path)
    assert names(tmp_path, "again") == ["a/b/c"]


def test_a_name_that_is_not_utf_8_is_refused_by_name(tmp_path: Path) -> None:
    tree(tmp_path, a="x")
    with open(os.fsencode(tmp_path) + b"/caf\xe9.txt", "wb"):
        pass
    with pytest.raises(
        RuntimeEnvError, match=r"/caf\\xe9.txt' can't be packed: the name is not UTF-8, .*; rename it, or"
    ):
        names(tmp_path)
    assert names(tmp_path, "caf*") == ["a"]
    tree(tmp_path, DOTgitignore="caf?.txt\n")
    assert names(tmp_path) == [".gitignore", "a"]


def test_what_can_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, a__b="x", c="y")
    scandir = os.scandir

    def closed(path: str) -> Any:
        if path.endswith("/a"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(RuntimeEnvError, match=f"{tmp_path} can't be packed: {tmp_path}/a: Permission denied"):
        names(tmp_path)
    assert names(tmp_path, "a/") == ["c"]


# -- the archive -------------------------------------------------------------------------------------------------------


def test_an_archive_depends_on_names_and_contents_only(tmp_path: Path) -> None:
    first, second = tree(tmp_path / "1", a="x", b__c="y"), tree(tmp_path / "2", b__c="y", a="x")
    os.utime(second / "a", (1, 1))
    archives = [pack(str(path), "name", ()) for path in (first, second)]
    for archive in archives:
        archive.seek(0)
    one, two = (archive.read() for archive in archives)
    assert one == two
    with zipfile.ZipFile(archives[0]) as package:
        assert package.namelist() == ["name/a", "name/b/c"]
    for archive in archives:
        archive.close()


def test_a_module_of_one_file_is_not_below_its_own_name(tmp_path: Path) -> None:
    tree(tmp_path, module="x")
    assert [file.name for file in find_files(str(tmp_path / "module"), "module", ())] == ["module"]


def test_permissions_travel(tmp_path: Path) -> None:
    tree(tmp_path, run="#!/bin/sh")
    (tmp_path / "run").chmod(0o755)
    with pack(str(tmp_path / "run"), "", ()) as archive, zipfile.ZipFile(archive) as package:
        assert package.infolist()[0].external_attr >> 16 == 0o755
