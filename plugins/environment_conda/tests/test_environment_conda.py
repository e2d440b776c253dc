"""Tasks and actors in conda environments, in real sessions, from a channel on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel_environment_conda.plugin import make_conda_builder

import kernel
from kernel import exceptions
from kernel.testing.session import RunningSession, running_session
from kernel_spec.environments import BuildPlace
from plugins.environment_conda.tests.channels import Channel, make_wheel

SECONDS = 300.0
PROGRAM = "conda_test_program"
"""A program of the channel's own."""


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Channel]:
    channel = Channel(tmp_path_factory.mktemp("channel"))
    channel.add_python()
    for version in ("1.0", "2.0"):
        channel.add_module("conda_test_greeting", version, f"VERSION = {version!r}\n")
    channel.add_module("yaml", "99.0", "VERSION = 'of the environment'\n")
    channel.add_module("conda_test_needy", "1.0", "", depends=["conda_test_greeting >=3"])
    channel.add_module("conda_test_old", "1.0", "", depends=["python 3.1.*"])
    channel.add_program(PROGRAM, "#!/bin/sh\necho the program\n")
    channel.write_index()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RATTLER_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield channel


@pytest.fixture(scope="module")
def session(channel: Channel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSession]:
    wheels = tmp_path_factory.mktemp("wheels")
    make_wheel(wheels, "pip_in_conda")
    existing = tmp_path_factory.mktemp("envs")
    made = make_conda_builder()
    described = made.prepare({"channels": [channel.url], "dependencies": ["conda_test_greeting=1"]}, None)  # type: ignore[arg-type]
    made.build(described, BuildPlace(str(existing), str))
    os.rename(existing / "prefix", existing / "mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(wheels))
        patch.setenv("PIP_CONFIG_FILE", os.devnull)
        patch.setenv("CONDA_ENVS_DIRS", str(existing))
        with running_session(num_cpus=2) as session:
            yield session


@kernel.remote
def greeting() -> tuple[str, str]:
    import conda_test_greeting

    return conda_test_greeting.VERSION, sys.executable


def built(session: RunningSession) -> list[str]:
    return sorted(os.listdir(os.path.join(session.directory, "environments")))


def test_tasks_have_the_packages_that_they_ask_for(session: RunningSession, channel: Channel) -> None:
    one = {"channels": [channel.url], "dependencies": ["conda_test_greeting=1"]}
    two = {"channels": [channel.url, "nodefaults"], "dependencies": ["conda_test_greeting"], "name": "two"}
    tasks = [greeting.options(runtime_env={"conda": each}) for each in (one, two, one)]
    results = kernel.get([task.remote() for task in tasks], timeout=SECONDS)
    assert [version for version, _ in results] == ["1.0", "2.0", "1.0"]
    assert all("/environments/conda-" in python for _, python in results)
    assert len(built(session)) == 2, "the same description is built once"
    with pytest.raises(ModuleNotFoundError):
        kernel.get(greeting.remote(), timeout=SECONDS)


def test_an_actor_and_what_it_starts_have_them_too(session: RunningSession, channel: Channel) -> None:
    @kernel.remote(runtime_env={"conda": {"channels": [channel.url], "dependencies": ["conda_test_greeting=1"]}})
    class Actor:
        def look(self) -> list[str]:
            import conda_test_greeting

            program = "import conda_test_greeting as g, kernel; print(g.VERSION)"
            children = [
                subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
                for python in (sys.executable, "python")
            ]
            return [conda_test_greeting.VERSION, *children]

        def die(self) -> None:
            os._exit(3)

    actor = Actor.options(max_restarts=1, max_task_retries=0).remote()
    assert kernel.get(actor.look.remote(), timeout=SECONDS) == ["1.0"] * 3
    with pytest.raises(exceptions.ActorUnavailableError):
        kernel.get(actor.die.remote(), timeout=SECONDS)
    assert kernel.get(actor.look.options(max_task_retries=3).remote(), timeout=SECONDS) == ["1.0"] * 3


def test_the_environment_comes_before_what_the_node_has(session: RunningSession, channel: Channel) -> None:
    @kernel.remote(runtime_env={"conda": {"channels": [channel.url], "dependencies": ["yaml"]}})
    def look() -> str:
        import yaml

        return yaml.VERSION

    assert kernel.get(look.remote(), timeout=SECONDS) == "of the environment"


def test_an_environment_that_nodes_have_is_used_by_name(session: RunningSession) -> None:
    version, python = kernel.get(greeting.options(runtime_env={"conda": "mine"}).remote(), timeout=SECONDS)
    assert version == "1.0" and "/environments/conda-" in python


def test_an_environment_that_no_node_has_is_told(session: RunningSession) -> None:
    task = greeting.options(runtime_env={"conda": "others"}, max_retries=0)
    with pytest.raises(exceptions.RuntimeEnvError, match="names the environment 'others', which this node does not"):
        kernel.get(task.remote(), timeout=SECONDS)


def test_a_file_may_say_what_is_installed_and_pip_goes_last(
    session: RunningSession, channel: Channel, tmp_path: Path
) -> None:
    file = tmp_path / "environment.yml"
    file.write_text(f"name: any\nchannels: ['{channel.url}']\ndependencies: [python, pip: [pip_in_conda==1.0]]\n")
    packed = kernel.pack_runtime_env({"conda": str(file)})
    file.unlink()

    @kernel.remote(runtime_env=packed)
    def look() -> str | None:
        import pip_in_conda

        return pip_in_conda.__file__

    assert "/prefix/lib/" in kernel.get(look.remote(), timeout=SECONDS)


def test_a_program_without_python_is_on_the_path_of_the_nodes_interpreter(
    session: RunningSession, channel: Channel
) -> None:
    @kernel.remote(runtime_env={"conda": {"channels": [channel.url], "dependencies": [PROGRAM]}})
    def look() -> tuple[str, str]:
        done = subprocess.run([PROGRAM], capture_output=True, text=True, check=True)
        return done.stdout, sys.executable

    assert kernel.get(look.remote(), timeout=SECONDS) == ("the program\n", sys.executable)


@pytest.mark.parametrize(
    ("dependency", "reason"),
    [
        ("conda_test_that_there_is_not", "conda_test_that_there_is_not"),
        ("conda_test_needy", "conda_test_greeting >=3"),
        ("conda_test_old", "python 3.1"),
    ],
)
def test_what_can_not_be_solved_is_told_with_the_reason(
    session: RunningSession, channel: Channel, dependency: str, reason: str
) -> None:
    environment = {"conda": {"channels": [channel.url], "dependencies": [dependency]}}
    with pytest.raises(exceptions.RuntimeEnvError) as caught:
        kernel.get(greeting.options(runtime_env=environment, max_retries=0).remote(), timeout=SECONDS)
    text = str(caught.value)
    assert f"runtime_env['conda'] can't be installed: {dependency} from {channel.url}, for the node's Python" in text
    assert reason in text.partition(channel.url)[2]


def test_what_pip_can_not_install_is_told_with_its_last_lines(session: RunningSession, channel: Channel) -> None:
    described = {"channels": [channel.url], "dependencies": [{"pip": ["pip-that-there-is-not"]}]}
    with pytest.raises(exceptions.RuntimeEnvError, match="No matching distribution found for pip-that-there-is-not"):
        kernel.get(greeting.options(runtime_env={"conda": described}, max_retries=0).remote(), timeout=SECONDS)
