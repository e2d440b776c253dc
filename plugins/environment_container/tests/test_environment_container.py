"""Tasks and actors in containers, in real sessions, with a stand-in for podman."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel import exceptions
from kernel.testing.session import running_session
from kernel_spec.dataclass import dataclass
from plugins.environment_container.tests.actors import SECONDS, Actor, has_ended, wait_until
from plugins.environment_container.tests.stand_in_podman import write_podman


@dataclass(slots=True)
class StandIn:
    """A session whose nodes have a podman that contains nothing."""

    directory: Path

    def environment(self, **more: Any) -> dict[str, Any]:
        return {"container": {"image": "an-image", "python": sys.executable, **more}}

    def calls(self, order: str) -> list[list[str]]:
        calls = [json.loads(line) for line in (self.directory / "calls").read_text().splitlines()]
        return [call for call in calls if call[0] == order]

    def containers(self) -> list[str]:
        return os.listdir(self.directory / "records")


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    directory = tmp_path_factory.mktemp("stand-in")
    write_podman(directory)
    (directory / "records" / "left").write_text("kernel.client=999999999-5")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("OF_THE_PROGRAM", "yes")
        patch.setenv("TMPDIR", os.environ.get("TMPDIR", "/tmp"))
        options = {"container": {"run_options": "--env FROM_THE_OPTIONS=1"}}
        with running_session(num_cpus=2, plugin_options=options):
            yield StandIn(directory)
    pids = [int(name) for name in os.listdir(directory / "records")]
    wait_until(lambda: all(map(has_ended, pids)))  # No container outlives the session.


def test_a_task_runs_in_a_container(stand_in: StandIn) -> None:
    @kernel.remote(
        runtime_env={
            **stand_in.environment(run_options=["--env 'OF_THE_TASK=one two'"]),
            "env_vars": {"SEARCH": "${PATH}:/more", "SECRET": "hidden"},
        }
    )
    def look() -> tuple[dict[str, str], list[str], list[str]]:
        return dict(os.environ), sys.path, [path for path in sys.path if "/paths/" in path and os.path.isdir(path)]

    variables, paths, mounted = kernel.get(look.remote(), timeout=SECONDS)
    expected = {
        "OF_THE_IMAGE": "yes", "OF_THE_PROGRAM": "yes", "OF_THE_TASK": "one two", "FROM_THE_OPTIONS": "1",
        "SEARCH": "/usr/bin:/bin:/more", "SECRET": "hidden", "HOME": "/", "PATH": "/usr/bin:/bin",
    }  # fmt: skip
    assert {name: variables.get(name) for name in expected} == expected
    assert "TMPDIR" not in variables
    assert mounted and all("/environments/container-" in path for path in mounted), "the node's packages are there"
    assert paths[0].endswith("/first") and "site-packages" in paths[1]
    assert "hidden" not in json.dumps(stand_in.calls("run")), "values of variables are in no command"


def test_what_a_killed_session_left_is_removed(stand_in: StandIn) -> None:
    kernel.get(Actor.options(runtime_env=stand_in.environment()).remote().pid.remote(), timeout=SECONDS)
    assert stand_in.calls("rm") == [["rm", "--force", "left"]]


def test_a_large_value_goes_through_the_store_that_is_shared(stand_in: StandIn) -> None:
    @kernel.remote(runtime_env=stand_in.environment())
    def double(data: bytes) -> bytes:
        return data * 2

    reference = kernel.put(b"x" * 3_000_000)
    assert kernel.get(double.remote(reference), timeout=SECONDS) == b"x" * 6_000_000


def test_a_kill_ends_the_container_of_an_actor_that_does_nothing_else(stand_in: StandIn) -> None:
    actor = Actor.options(runtime_env=stand_in.environment()).remote()
    pid, parent = kernel.get([actor.pid.remote(), actor.parent.remote()], timeout=SECONDS)
    assert str(parent) in stand_in.containers()
    blocked = actor.block.remote()
    kernel.kill(actor)
    with pytest.raises(exceptions.ActorDiedError, match="killed by kernel.kill"):
        kernel.get(blocked, timeout=SECONDS)
    wait_until(lambda: has_ended(pid) and str(parent) not in stand_in.containers())


def test_an_actor_that_ends_is_explained_and_starts_again_in_a_container(stand_in: StandIn) -> None:
    actor = Actor.options(runtime_env=stand_in.environment(), max_restarts=1).remote()
    first = kernel.get(actor.parent.remote(), timeout=SECONDS)
    with pytest.raises(exceptions.ActorUnavailableError, match="it ended with exit code 3"):
        kernel.get(actor.end.remote(3), timeout=SECONDS)
    second = kernel.get(actor.parent.options(max_task_retries=3).remote(), timeout=SECONDS)
    wait_until(lambda: str(first) not in stand_in.containers())
    assert str(second) in stand_in.containers()
    with pytest.raises(exceptions.ActorDiedError, match="it ended with exit code 4"):
        kernel.get(actor.end.remote(4), timeout=SECONDS)


def test_an_image_that_there_is_not_is_told(stand_in: StandIn) -> None:
    task = kernel.remote(lambda: 1).options(runtime_env={"image_uri": "image-that-there-is-not"}, max_retries=0)
    with pytest.raises(exceptions.RuntimeEnvError) as caught:
        kernel.get(task.remote(), timeout=SECONDS)
    assert "runtime_env['image_uri']: no container of image-that-there-is-not can be run; `" in str(caught.value)
    assert "Error: no such image" in str(caught.value)


def test_a_container_and_another_interpreter_are_refused_together(stand_in: StandIn) -> None:
    environment = {**stand_in.environment(), "image_uri": "an-image"}
    with pytest.raises(exceptions.RuntimeEnvError, match="both choose the interpreter"):
        kernel.get(Actor.options(runtime_env=environment).remote().pid.remote(), timeout=SECONDS)
