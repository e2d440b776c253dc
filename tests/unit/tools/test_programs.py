"""The programs that tests start: each is in a table, installed from it, and a test without its program is skipped."""

from __future__ import annotations

import ast
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.testing.programs import PACKAGES, advice, missing, need

REPOSITORY = Path(__file__).resolve().parents[3]

EVERYWHERE = {
    "bash",
    "cat",
    "echo",
    "env",
    "mount",
    "nsenter",
    "setpriv",
    "setsid",
    "sh",
    "sleep",
    "true",
    "umount",
    "unshare",
}
"""Programs that are part of the smallest Debian: its essential packages, and `mount`."""

LOOKED_FOR = {"hadolint", "nvidia-smi", "podman", "runc", "ssh", "ssh-keygen", "systemd-analyze", "telnet"}
"""Programs that are used where they are, of which it is only asked whether they are there, or that sshd or a wheel
brings."""

STARTERS = {
    "subprocess": {"run", "Popen", "call", "check_call", "check_output"},
    "asyncio": {"create_subprocess_exec"},
    "shutil": {"which"},
    "": {"_run", "need"},
}
"""By module: what starts or looks for the program that is its first argument, or the first of a list there."""


def sources() -> Iterator[Path]:
    for folder in ("tests", "spec/tests", "plugins/testing/kernel_testing", "examples"):
        yield from (REPOSITORY / folder).rglob("*.py")
    for pattern in ("tests", "tests_*", "kernel_*/testing", "kernel_*/testing.py"):
        for place in (REPOSITORY / "plugins").glob(f"*/{pattern}"):
            yield from place.rglob("*.py") if place.is_dir() else [place]


def programs_in(text: str) -> set[str]:
    """Return the programs that Python code starts or looks for by a name that stands there."""
    found: set[str] = set()
    if not any(word in text for word in ("_run", "need", *filter(None, STARTERS))):
        return found  # to parse all files would take seconds
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.Call) and call.args:
            module = getattr(getattr(call.func, "value", None), "id", "")
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            first = call.args[0]
            if isinstance(first, ast.List | ast.Tuple) and first.elts:
                first = first.elts[0]
            if name in STARTERS.get(module, ()) and isinstance(first, ast.Constant) and isinstance(first.value, str):
                found.add(first.value)
    return found


def test_a_program_is_found_however_it_is_started() -> None:
    text = '_run("one", x)\nsubprocess.Popen(("two", "-v"))\nshutil.which("three")\n'
    text += 'subprocess.run([sys.executable])\nrun(["four"])'
    assert programs_in(text) == {"one", "two", "three"}


def test_every_program_that_tests_start_is_installed_with_the_rest() -> None:
    found = {name for path in sources() for name in programs_in(path.read_text(encoding="utf-8"))}
    unknown = found - EVERYWHERE - set(PACKAGES) - LOOKED_FOR
    assert not unknown, f"put {unknown} into kernel_testing/programs.py, and `need()` them where they are started"
    assert set(PACKAGES) <= found, "what no test starts needs not be installed"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(place: Path, name: str, script: str = "exit 0") -> None:
    file = place / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def test_a_test_without_its_program_is_skipped_with_what_to_install(machine: Path) -> None:
    with pytest.raises(pytest.skip.Exception) as skipped:
        need("ip")
    assert str(skipped.value) == "ip is not installed here; on Debian and Ubuntu: apt-get install iproute2"
    program(machine, "ip")
    need("ip")


def test_a_program_that_would_not_be_installed_can_not_be_needed(machine: Path) -> None:
    with pytest.raises(KeyError, match="telnet"):
        need("telnet")


def test_the_advice_names_all_that_is_missing(machine: Path) -> None:
    program(machine, "curl")
    assert missing() == ["bwrap", "git", "ip", "openssl", "redis-server", "sshd"]
    assert advice(missing()) == (
        "bwrap, git, ip, openssl, redis-server, sshd are not installed here; "
        "on Debian and Ubuntu: apt-get install bubblewrap git iproute2 openssl redis-server openssh-server"
    )


INSTALL = "import sys; sys.path.insert(0, {tools!r}); import system_packages as it; {before}; it.install_programs()"
APT_GET = """
echo "$DEBIAN_FRONTEND: $*" >>{log}
case "$*" in
    update*) : >{lists} ;;
    install*) [ -e {lists} ] || {{ echo "E: Unable to locate package curl" >&2; exit 100; }}
        for name in bwrap curl git ip openssl redis-server sshd; do
            printf '#!/bin/sh\\n' >{place}/$name
            /bin/chmod +x {place}/$name
        done ;;
esac
"""


def install(place: Path, before: str = "pass") -> str:
    """Let the programs be installed, as `tools/dev_install.py` does; return what is said of it."""
    code = INSTALL.format(tools=str(REPOSITORY / "tools"), before=before)
    environment = {**os.environ, "PATH": str(place)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout == "", done.stderr
    return done.stderr


AS_ROOT, AS_USER = "import os; os.geteuid = lambda: 0", "import os; os.geteuid = lambda: 1000"


def test_what_is_missing_is_installed_and_lists_that_are_too_old_are_fetched(machine: Path) -> None:
    lists, log = machine / "lists", machine / "log"
    program(machine, "apt-get", APT_GET.format(lists=lists, log=log, place=machine))
    assert install(machine, AS_ROOT) == ""
    assert missing() == []
    programs = "bubblewrap curl git iproute2 openssl redis-server openssh-server"
    asked = f"noninteractive: install -qq -y --no-install-recommends {programs}"
    assert log.read_text().splitlines() == [asked, "noninteractive: update -qq", asked]
    assert install(machine, AS_ROOT) == "", "nothing is missing any more"
    assert len(log.read_text().splitlines()) == 3


def test_who_is_not_root_installs_with_sudo(machine: Path) -> None:
    lists, log = machine / "lists", machine / "log"
    lists.touch()
    program(machine, "apt-get", APT_GET.format(lists=lists, log=log, place=machine))
    program(machine, "sudo", '[ "$1" = -n ] && shift; exec /usr/bin/env "$@"')
    program(machine, "true")
    assert install(machine, AS_USER) == ""
    assert missing() == []


@pytest.mark.parametrize(
    ("programs", "before", "reason"),
    [
        ({}, AS_ROOT, "there is no apt-get"),
        ({"apt-get": "exit 0"}, AS_USER, "that needs root, and there is no sudo"),
        ({"apt-get": "exit 0", "sudo": "exit 1"}, AS_USER, "that needs root, and sudo asks for a password"),
        (
            {"apt-get": "echo W: old >&2; echo E: no network >&2; exit 100"},
            AS_ROOT,
            "`apt-get install -qq -y --no-install-recommends bubblewrap curl git iproute2 openssl redis-server "
            "openssh-server` failed: E: no network",
        ),
    ],
)
def test_where_nothing_can_be_installed_one_line_says_what_to_do(
    machine: Path, programs: dict[str, str], before: str, reason: str
) -> None:
    for name, script in programs.items():
        program(machine, name, script)
    assert install(machine, before) == (
        "bwrap, curl, git, ip, openssl, redis-server, sshd are not installed here; on Debian and Ubuntu: "
        f"apt-get install bubblewrap curl git iproute2 openssl redis-server openssh-server ({reason}). "
        "Tests that need them are skipped.\n"
    )


def test_all_that_need_a_program_are_skipped_without_it(tmp_path: Path) -> None:
    for name in EVERYWHERE:
        if (found := shutil.which(name)) is not None:
            (tmp_path / name).symlink_to(found)
    who = re.compile(r"\bneed\(|\bon_hosts\(|\bstart_redis\b|\bshared_redis\b")
    files = [path for path in sources() if path.name.startswith("test_") and who.search(path.read_text("utf-8"))]
    files.remove(Path(__file__))
    assert len(files) > 5
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *map(str, files)]
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for program in set(PACKAGES) - {"openssl"}:  # whose test says first that there is no Redis
        assert f"{advice([program])}\n" in done.stdout, f"no test was skipped for want of {program}"
