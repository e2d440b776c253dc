"""What a program finds around it may be odd: standard descriptors that are closed, a deleted working directory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernel
from kernel.exceptions import UsageError
from kernel.testing.command_line import CommandLine
from kernel.testing.session import running_session, temporary_root

SECONDS = 120.0


@pytest.fixture
def root() -> Iterator[str]:
    with temporary_root() as place:
        yield place


WITHOUT_STANDARD_DESCRIPTORS = """
import os
import sys

for descriptor in sys.argv[2].split(","):
    if descriptor:
        os.close(int(descriptor))
import kernel

try:
    kernel.init(num_cpus=1, object_store_memory=32 << 20)
    one = kernel.remote(lambda: 1)
    first = kernel.get(one.remote(), timeout=100)
    for descriptor in (1, 2):  # as a library may, to which nobody has said that it is closed
        os.write(descriptor, b"x" * 1000)
    said = first + kernel.get(one.remote(), timeout=100)
    kernel.shutdown()
except BaseException as error:
    said = error
with open(sys.argv[1], "w") as file:
    file.write(repr(said))
"""


@pytest.mark.parametrize("closed", ["0", "1,2", "0,1,2"])
def test_a_session_begins_whatever_standard_descriptors_are_closed(closed: str, root: str, tmp_path: Path) -> None:
    program = CommandLine(root).program(WITHOUT_STANDARD_DESCRIPTORS, str(tmp_path / "said"), closed)
    _, errors = program.communicate(timeout=SECONDS)
    assert (tmp_path / "said").read_text() == "2", errors


def test_a_program_that_was_started_without_standard_descriptors(root: str, tmp_path: Path) -> None:
    line = CommandLine(root)
    command = [sys.executable, "-c", WITHOUT_STANDARD_DESCRIPTORS, str(tmp_path / "said"), ""]
    closing = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
    assert subprocess.run(closing, env=line.environment, timeout=SECONDS).returncode == 0
    assert (tmp_path / "said").read_text() == "2"


@pytest.fixture
def deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A working directory that is not there any more."""
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()
    return f"the working directory {place} of this program was deleted; change to one that is there, and try again"


@pytest.mark.parametrize("local_mode", [False, True])
def test_a_deleted_working_directory_is_named(local_mode: bool, deleted: str) -> None:
    with pytest.raises(UsageError, match=deleted), running_session(local_mode=local_mode):
        pass
    assert not kernel.is_initialized()


def test_a_deleted_working_directory_is_named_by_commands(deleted: str, root: str) -> None:
    line = CommandLine(root)
    assert line.refused("start", "--head", "--port", "0") == f"kernel: {deleted}"
    assert line.refused("status", KERNEL_TMPDIR="relative") == f"kernel: {deleted}"
    assert os.listdir(os.path.join(root, f"kernel-{os.getuid()}")) == []


LITTLE_ADDRESS_SPACE = """
import resource
import sys
import numpy
import kernel

resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
given = {"object_store_memory": int(sys.argv[1])} if sys.argv[1:] else {}
with kernel.init(num_cpus=1, **given):
    for use in (lambda: kernel.put(numpy.ones(1 << 20)), kernel.remote(lambda: numpy.ones(1 << 20)).remote):
        try:
            print(kernel.get(use(), timeout=100).sum())
        except kernel.exceptions.KernelError as error:
            print(error)
"""


def test_the_default_store_can_be_mapped_where_address_space_is_limited(root: str) -> None:
    said, errors = CommandLine(root).program(LITTLE_ADDRESS_SPACE).communicate(timeout=SECONDS)
    assert said == "1048576.0\n" * 2, errors


def test_a_store_that_can_not_be_mapped_says_what_is_too_large(root: str) -> None:
    program = CommandLine(root).program(LITTLE_ADDRESS_SPACE, str(3 << 30))
    said, errors = program.communicate(timeout=SECONDS)
    assert said.count(f"can't map the {3 << 30} bytes of the object store, which each process maps twice") == 2, errors
    assert said.count(f": `ulimit -v` gives it {2 << 30} bytes of address space; start the session with a smaller") == 2
    assert said.count("object_store_memory") == 2
