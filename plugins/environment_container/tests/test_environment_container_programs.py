"""Tasks and actors in containers, in real sessions, with the programs of this machine that run containers."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_environment_container.leftovers import remove_leftovers
from kernel_environment_container.programs import ContainerProgram

import kernel
from kernel import exceptions
from kernel.testing.programs import need
from kernel.testing.session import running_session
from plugins.environment_container.tests.actors import SECONDS, Actor, has_ended, wait_until
from plugins.environment_container.tests.root_file_systems import MARK, MOUNTED, PYTHON, make_root


def assert_contained(environment: dict[str, Any]) -> None:
    """Assert that tasks and actors run in this environment, see the container's files, and leave no process."""

    test = __file__

    @kernel.remote(runtime_env=environment)
    def look() -> tuple[str, bool]:
        return Path(MARK).read_text(), os.path.exists(test)

    assert kernel.get(look.remote(), timeout=SECONDS) == ("in the container", False)
    actor = Actor.options(runtime_env=environment).remote()
    pid = kernel.get(actor.pid.remote(), timeout=SECONDS)
    blocked = actor.block.remote()
    kernel.kill(actor)
    with pytest.raises(exceptions.ActorDiedError, match="killed by kernel.kill"):
        kernel.get(blocked, timeout=SECONDS)
    wait_until(lambda: has_ended(pid))
    ended = Actor.options(runtime_env=environment).remote()
    with pytest.raises(exceptions.ActorDiedError, match="it ended with exit code 3"):
        kernel.get(ended.end.remote(3), timeout=SECONDS)


def test_bubblewrap_runs_workers_in_a_root_file_system(tmp_path: Path) -> None:
    need("bwrap")
    root = make_root(tmp_path / "root")
    options = [f"--ro-bind {path} {path}" for path in MOUNTED]
    environment = {"container": {"image": str(root), "python": PYTHON, "run_options": options}}
    with running_session(num_cpus=2, plugin_options={"container": {"program": "bwrap"}}):
        assert_contained(environment)


@pytest.fixture
def podman(tmp_path: Path) -> Iterator[str]:
    """Yield a command of podman with a storage of its own, where podman can run a container."""
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed here; on Debian and Ubuntu: apt-get install podman runc")
    running = tempfile.mkdtemp(prefix="kt-", dir="/tmp")  # podman takes 50 characters at most
    runtime = "--runtime runc" if shutil.which("runc") else ""
    command = (
        f"podman --root {tmp_path}/storage --runroot {running} --storage-driver vfs --events-backend file "
        f"--cgroup-manager cgroupfs {runtime}"
    )
    make_root(tmp_path / "trial")
    options = [*LIMITS.split(), *(word for path in MOUNTED for word in ("-v", f"{path}:{path}:ro"))]
    trial = [
        *command.split(),
        "run",
        "--rm",
        "--network",
        "host",
        *options,
        "--rootfs",
        str(tmp_path / "trial"),
        PYTHON,
        "-c",
        "0",
    ]
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"podman can't run a container here: {done.stderr.strip()}")
    yield command
    shutil.rmtree(running)


LIMITS = "--ulimit nofile=1024:1024 --ulimit nproc=1000:1000"


def test_podman_runs_workers_in_an_image(podman: str, tmp_path: Path) -> None:
    root = make_root(tmp_path / "root")
    with tarfile.open(tmp_path / "root.tar", "w") as archive:
        archive.add(root, arcname=".")
    image = "localhost/kernel-test:1"
    load = [*podman.split(), "import", "--change", "ENV=OF_THE_IMAGE=yes", str(tmp_path / "root.tar"), image]
    subprocess.run(load, capture_output=True, check=True)
    options = [f"-v {path}:{path}:ro" for path in MOUNTED]
    environment = {"container": {"image": image, "python": PYTHON, "run_options": options}}
    with running_session(num_cpus=2, plugin_options={"container": {"program": podman, "run_options": LIMITS}}):
        variable = kernel.remote(lambda: os.environ["OF_THE_IMAGE"]).options(runtime_env=environment)
        assert kernel.get(variable.remote(), timeout=SECONDS) == "yes"
        assert_contained(environment)

    def nothing_is_left() -> bool:
        remove_leftovers(ContainerProgram("podman", tuple(podman.split())))
        listing = [*podman.split(), "ps", "--all", "--quiet"]
        return subprocess.run(listing, capture_output=True, text=True, check=True).stdout == ""

    wait_until(nothing_is_left)
