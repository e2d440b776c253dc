"""What a program finds around it may be odd: closed standard descriptors, a deleted directory, no room, no devices."""

from __future__ import annotations

import os
import shutil
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


def by_program(root: str, prefix: list[str], text: str, *arguments: str) -> list[str]:
    """Return the lines that a program printed. It may not hang; what it writes to stderr is shown if it fails."""
    said, errors = CommandLine(root, prefix).program(text, *arguments).communicate(timeout=SECONDS)
    assert said.endswith("done\n"), (said, errors)
    return said.splitlines()[:-1]


# Only what belongs to root is closed to the program afterwards: it may still read the Python that it runs.
BECOMES_ANOTHER_USER = """
import ctypes
import os
import sys
import numpy
import kernel

kernel.init(num_cpus=1, object_store_memory=32 << 20)
total = kernel.remote(lambda array: int(numpy.sum(array)))
if sys.argv[1] == "late":
    assert kernel.get(total.remote(1), timeout=100) == 1
system = ctypes.CDLL(None)
assert system.prctl(8, 1, 0, 0, 0) == 0
os.setuid(54321)
reads_all = (ctypes.c_uint32 * 6)(4, 4)
assert system.capset((ctypes.c_uint32 * 2)(0x20080522, 0), reads_all) == 0
for use in (lambda: numpy.ones(1 << 18), lambda: 1):
    try:
        print(kernel.get(kernel.remote(lambda: 1).options(num_cpus=0.5).remote(), timeout=100))
        print(kernel.get(total.remote(use()), timeout=100))
    except kernel.exceptions.SessionEndedError as error:
        print(error)
kernel.shutdown()
print("done")
"""


@pytest.mark.parametrize("when", ["at once", "late"])
def test_a_program_that_becomes_another_user_is_told_so(when: str, root: str) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may become another user")
    lines = by_program(root, [], BECOMES_ANOTHER_USER, when)
    ended = "this process began as user 0 and became user 54321, who may not reach the session's other processes"
    assert ended in lines[-1] and "change the user before kernel.init()" in lines[-1], lines


# Of processes and threads of a user of its own, who may read what root may, there are no more than allowed.
HAS_LITTLE_ROOM = """
import resource
import sys
import kernel
from kernel_processes.system.processes import descendants_of
from kernel.testing.faults import agents_of

def limit(pid, most):
    resource.prlimit(pid, resource.RLIMIT_NPROC, (most, most))

def tried(use):
    try:
        print(use())
    except kernel.exceptions.KernelError as error:
        print(" ".join(str(error).split()))

@kernel.remote(num_cpus=0)
class Actor:
    def give(self):
        return 1

most = int(sys.argv[1])
if most:
    limit(0, most)
tried(lambda: len(kernel.init(num_cpus=1, object_store_memory=32 << 20)))
if kernel.is_initialized():
    first = kernel.remote(lambda: 1)
    if not most:
        print(kernel.get(first.remote(), timeout=100))
        for pid in (0, *agents_of(), *descendants_of(agents_of()[0])):
            limit(pid, 1)
    actors = [Actor.remote() for _ in range(4)]
    for actor in actors:
        tried(lambda: kernel.get(actor.give.remote(), timeout=100))
kernel.shutdown()
print("done")
"""


@pytest.mark.parametrize("most", [1, 3, 4, 5, 6, 7, 8, 0])
def test_a_user_who_may_have_no_more_processes_is_told_so(most: int, root: str) -> None:
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root may become another user, by `setpriv`")
    os.chmod(root, 0o777)
    may_read = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    user = ["setpriv", f"--reuid={54000 + most}", "--clear-groups", *may_read]
    lines = by_program(root, user, HAS_LITTLE_ROOM, str(most))
    told = [line for line in lines if not line.isdigit()]
    assert told and all("this user may have no more processes and threads; allow more" in line for line in told), lines


WITHOUT_DEVICES = """
import numpy
import kernel

try:
    kernel.init(num_cpus=1, object_store_memory=32 << 20)
    refs = [kernel.put(numpy.ones(1 << 20)) for _ in range(8)]
    print([int(kernel.get(kernel.remote(numpy.sum).remote(ref), timeout=100)) for ref in refs] == [1 << 20] * 8)
except kernel.exceptions.UsageError as error:
    print(error)
kernel.shutdown()
print("done")
"""
AMONG_DEVICES = 'mount -t tmpfs none /dev && {} && exec "$@"'


@pytest.mark.parametrize(
    ("devices", "said"),
    [("true", "there is no /dev/null here, without which no process can be started; mount /dev"),
     ("mknod -m 666 /dev/null c 1 3", "True")],
    ids=["no devices", "no shared memory"],
)  # fmt: skip
def test_a_machine_without_devices(devices: str, said: str, root: str) -> None:
    if not may_mount():
        pytest.skip("this machine lets nobody mount an empty /dev")
    inside = ["unshare", "-m", "sh", "-c", AMONG_DEVICES.format(devices), "sh"]
    (line,) = by_program(root, inside, WITHOUT_DEVICES)
    assert line.startswith(said)


def may_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/dev"], capture_output=True)
    return tried.returncode == 0
