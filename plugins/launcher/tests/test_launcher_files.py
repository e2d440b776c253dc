"""What is copied, what is left out, and where it lands."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import tarfile

import pytest
from kernel_launcher.errors import MachineError
from kernel_launcher.files.copying import copy_down, copy_mount, copy_up
from kernel_launcher.files.patterns import Patterns
from kernel_launcher.files.trees import content_digest, read_tar, walk

from kernel_spec.errors import OptionError


class Shell:
    """A machine that is a shell of this one, with another HOME."""

    def __init__(self, home):
        self.environment = {"HOME": str(home), "PATH": os.environ["PATH"]}

    @contextlib.contextmanager
    def send(self, command):
        process = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, env=self.environment, cwd="/")
        yield process.stdin
        process.stdin.close()
        assert process.wait() == 0

    @contextlib.contextmanager
    def receive(self, command):
        process = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, env=self.environment, cwd="/")
        yield process.stdout
        process.stdout.close()
        if process.wait():
            raise MachineError(command)


@pytest.fixture
def tree(tmp_path):
    top = tmp_path / "tree"
    (top / "src" / "deep").mkdir(parents=True)
    for name in ("a.py", "a.pyc", "src/b.py", "src/b.pyc", "src/deep/c.py", "log"):
        (top / name).write_text(name)
    (top / "src" / ".gitignore").write_text("# words\n*.pyc\n/deep\n")
    (top / "link").symlink_to("a.py")
    return top


def paths(top, *given):
    return [path for _, path in walk(top, Patterns(*given))]


@pytest.mark.parametrize(
    "pattern, without",
    [
        ("*.pyc", {"a.pyc", "src/b.pyc"}),
        ("/*.pyc", {"a.pyc"}),
        ("src/", {"src", "src/b.py", "src/b.pyc", "src/deep", "src/deep/c.py", "src/.gitignore"}),
        ("log/", set()),
        ("src/*.py", {"src/b.py"}),
        ("src/**.py", {"src/b.py", "src/deep/c.py"}),
        ("**/deep/**", {"src/deep/c.py"}),
        ("**/log", {"log"}),
        ("[ab].py", {"a.py", "src/b.py"}),
        ("[!a].py", {"src/b.py", "src/deep/c.py"}),
        ("?.pyc", {"a.pyc", "src/b.pyc"}),
    ],
)
def test_patterns_mean_what_they_mean_to_rsync(tree, pattern, without):
    assert set(paths(tree)) - set(paths(tree, [pattern])) == without


def test_a_filter_file_holds_below_its_directory(tree):
    assert set(paths(tree)) - set(paths(tree, (), [".gitignore"])) == {"src/b.pyc", "src/deep", "src/deep/c.py"}


def test_a_digest_tells_contents_names_and_permissions(tree):
    def digest():
        return content_digest(str(tree), Patterns(["log"]))

    found = {digest()}
    (tree / "log").write_text("is left out")
    assert digest() in found
    (tree / "a.py").write_text("x")
    found.add(digest())
    (tree / "a.py").rename(tree / "z.py")
    found.add(digest())
    (tree / "z.py").chmod(0o755)
    found.add(digest())
    (tree / "link").unlink()
    (tree / "link").symlink_to("z.py")
    found.add(digest())
    assert len(found) == 5


def test_what_is_not_there_is_told_before_anything_is_done(tmp_path):
    with pytest.raises(OptionError, match=r"/none is to be copied to the cluster, and there is no such file"):
        content_digest(str(tmp_path / "none"), Patterns())


def test_mounts_and_copies_land_where_rsync_puts_them(tree, tmp_path):
    home = tmp_path / "home of me"
    home.mkdir()
    there = Shell(home)
    assert copy_mount(there, str(tree), "~/code", Patterns(["*.pyc"])) == 6
    assert (home / "code" / "src" / "deep" / "c.py").read_text() == "src/deep/c.py"
    assert os.readlink(home / "code" / "link") == "a.py" and not (home / "code" / "a.pyc").exists()
    copy_mount(there, str(tree / "a.py"), "~/one/renamed.py", Patterns())
    assert (home / "one" / "renamed.py").read_text() == "a.py"
    copy_up(there, str(tree / "a.py"), "~/one", Patterns())
    copy_up(there, str(tree / "a.py"), "~/new/", Patterns())
    copy_up(there, str(tree / "a.py"), "~/new/b.py", Patterns())
    copy_up(there, str(tree), "~/as", Patterns())
    copy_up(there, f"{tree}/", "~/contents", Patterns())
    for path in ("one/a.py", "new/a.py", "new/b.py", "as/tree/a.py", "contents/a.py"):
        assert (home / path).read_text() == "a.py", path


def test_copies_come_back_as_rsync_brings_them(tree, tmp_path):
    there, here = Shell(tree), tmp_path / "here"
    assert copy_down(there, "~/src", f"{here}/as") == 4
    assert copy_down(there, "~/src/", f"{here}/contents") == 4
    assert copy_down(there, "~/a.py", f"{here}/renamed.py") == 1
    assert copy_down(there, "~/a.py", f"{here}/into/") == 1
    assert copy_down(there, "~/src/b.py", str(here)) == 1
    found = {str(path.relative_to(here)) for path in here.rglob("*.py")}
    assert found == {
        "as/src/b.py", "as/src/deep/c.py", "contents/b.py", "contents/deep/c.py", "renamed.py", "into/a.py", "b.py",
    }  # fmt: skip
    with pytest.raises(MachineError):
        copy_down(there, "~/none", str(here))


def test_nothing_that_is_sent_leads_out_of_its_directory(tmp_path):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        member = tarfile.TarInfo("../outside")
        tar.addfile(member, io.BytesIO())
    stream.seek(0)
    with pytest.raises(MachineError):
        read_tar(stream, tmp_path / "inside")
    assert not (tmp_path / "outside").exists()
