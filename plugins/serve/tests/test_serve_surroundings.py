"""The environment of replicas: that of the program that deploys, and the deployment's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from kernel_serve.api import run as api
from kernel_serve.config.deploying import build_here, deploy_config
from kernel_serve.config.reading import read

import kernel
from kernel import serve
from kernel.testing.faults import kill, wait_until
from kernel_spec.errors import RuntimeEnvError

cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECONDS = 120.0

PROGRAM = """
import json, os, sys
import kernel
from kernel import serve

address, name, environment, options = sys.argv[1:]
kernel.init(address=address, runtime_env=json.loads(environment), log_to_driver=False)

@serve.deployment(version="1", **json.loads(options))
class Shown:
    def __call__(self):
        import words
        with open("data.txt") as file:
            data = file.read()
        variables = {name: os.environ.get(name) for name in ("KS_ONE", "KS_TWO")}
        return {"words": words.WORDS, "data": data, "pid": os.getpid(), **variables}

serve.run(Shown.bind(), name=name, route_prefix=None)
"""


@serve.deployment(version="1")
class Plain:
    """Tells what it runs in."""

    def __call__(self) -> dict[str, Any]:
        names = ("KS_ONE", "KS_TWO")
        data = Path("data.txt").read_text() if os.path.exists("data.txt") else ""
        return {"pid": os.getpid(), "data": data, **{name: os.environ.get(name) for name in names}}


@pytest.fixture(scope="module")
def session() -> Iterator[str]:
    """A session of its own; its directory, by which other programs find it."""
    kernel.shutdown()
    with kernel.init(num_cpus=8, log_to_driver=False) as info:
        yield info["session_dir"]
        serve.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a module and a file."""
    return make_folder(tmp_path / "one", "one")


def make_folder(path: Path, words: str) -> Path:
    path.mkdir()
    (path / "words.py").write_text(f"WORDS = {words!r}\n")
    (path / "data.txt").write_text(f"data of {words}")
    return path


def program(session: str, application: str, environment: dict[str, Any], **options: Any) -> None:
    """Run a program that deploys an application, to its end."""
    run("-c", PROGRAM, session, application, json.dumps(environment), json.dumps(options))


def run(*arguments: str) -> None:
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr


def shown(name: str) -> dict[str, Any]:
    """Return what a replica of an application says of itself."""
    return serve.get_app_handle(name).remote().result(SECONDS)  # type: ignore[no-any-return]


def test_each_program_has_its_replicas_in_its_own_environment(session: str, folder: Path, tmp_path: Path) -> None:
    other = make_folder(tmp_path / "two", "two")
    program(session, "one", {"working_dir": str(folder), "env_vars": {"KS_ONE": "1", "KS_TWO": "2"}})
    program(session, "two", {"working_dir": str(other), "env_vars": {"KS_ONE": "one"}})
    serve.run(Plain.bind(), name="here", route_prefix=None)
    first, second, here = (shown(name) for name in ("one", "two", "here"))
    assert (first["words"], first["data"], first["KS_ONE"], first["KS_TWO"]) == ("one", "data of one", "1", "2")
    assert (second["words"], second["data"], second["KS_ONE"], second["KS_TWO"]) == ("two", "data of two", "one", None)
    assert (here["data"], here["KS_ONE"], here["KS_TWO"]) == ("", None, None), "that of who started the controller"


def test_environments_outlive_programs_replicas_and_controllers(session: str, folder: Path) -> None:
    program(session, "one", {"working_dir": str(folder), "env_vars": {"KS_ONE": "1"}})
    shutil.rmtree(folder)
    before = shown("one")
    kill(before["pid"])
    again = after_death(before["pid"])
    assert {**again, "pid": 0} == {**before, "pid": 0}
    controller = api.status()["controller_pid"]
    kill(controller)
    wait_until(lambda: api.status()["controller_pid"] != controller, SECONDS, "another controller")
    assert shown("one") == again, "it runs on"
    kill(again["pid"])
    assert {**after_death(again["pid"]), "pid": 0} == {**before, "pid": 0}


def after_death(pid: int) -> dict[str, Any]:
    """Return what another replica of "one" says."""
    found: dict[str, Any] = {}

    def answers() -> bool:
        try:
            found.update(serve.get_app_handle("one").options(retry=True).remote().result(SECONDS))
        except serve.DeploymentUnavailableError:
            return False
        return bool(found["pid"] != pid)

    wait_until(answers, SECONDS, "another replica")
    return found


def test_deployments_add_to_the_environment_of_their_program(session: str, folder: Path, tmp_path: Path) -> None:
    own = make_folder(tmp_path / "own", "own")
    environment = {"working_dir": str(folder), "env_vars": {"KS_ONE": "1", "KS_TWO": "2"}}
    program(session, "one", environment, actor_options={"runtime_env": {"env_vars": {"KS_TWO": "two"}}})
    variables = shown("one")
    assert (variables["words"], variables["KS_ONE"], variables["KS_TWO"]) == ("one", "1", "two")
    program(session, "one", environment, actor_options={"runtime_env": {"working_dir": str(own)}})
    directory = shown("one")
    assert (directory["words"], directory["data"], directory["KS_TWO"]) == ("own", "data of own", "2")


def test_a_changed_directory_is_a_new_version_and_an_unchanged_one_is_none(session: str, folder: Path) -> None:
    plain = Plain.options(actor_options={"runtime_env": {"working_dir": str(folder)}})
    serve.run(plain.bind(), name="changing", route_prefix=None)
    before = shown("changing")
    os.utime(folder / "data.txt", (1, 1))
    serve.run(plain.bind(), name="changing", route_prefix=None)
    assert shown("changing") == before
    (folder / "data.txt").write_text("changed")
    serve.run(plain.bind(), name="changing", route_prefix=None)
    after = shown("changing")
    assert after["data"] == "changed" and after["pid"] != before["pid"]


BESIDE = """
import sys
import kernel
import beside
from kernel import serve

kernel.init(address=sys.argv[1], log_to_driver=False)

@serve.deployment
class Beside:
    def __call__(self):
        return beside.NAME

serve.run(Beside.bind(), name=sys.argv[2], route_prefix=None)
"""


def test_modules_beside_a_program_are_found(session: str, tmp_path: Path) -> None:
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "beside.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "main.py").write_text(BESIDE)
        run(str(tmp_path / name / "main.py"), session, name)
    assert [serve.get_app_handle(name).remote().result(SECONDS) for name in ("left", "right")] == ["left", "right"]


def test_a_bad_environment_is_refused_before_anything_changes(session: str) -> None:
    broken = Plain.options(actor_options={"runtime_env": {"working_dir": "/nowhere/at/all"}})
    with pytest.raises(RuntimeEnvError, match=r"deployment Plain: runtime_env\['working_dir'\] must be an existing"):
        serve.run(broken.bind(), name="never", route_prefix=None)
    assert "never" not in serve.status()["applications"]


APPLICATION = """
import os
from kernel import serve

@serve.deployment
class Shop:
    def __call__(self):
        import words
        return {"words": words.WORDS, "one": os.environ.get("KS_ONE"), "data": open("data.txt").read()}

app = Shop.bind()
"""


def test_the_environment_in_a_file(session: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "far_words_shop.py").write_text(APPLICATION)
    make_folder(tmp_path / "own", "own")
    monkeypatch.chdir(tmp_path)  # paths are as who deploys sees them
    said: dict[str, Any] = {
        "name": "shop",
        "import_path": "far_words_shop:app",
        "route_prefix": None,
        "runtime_env": {"working_dir": "one", "env_vars": {"KS_ONE": "1"}},
    }

    def deploy() -> dict[str, Any]:
        deploy_config(read(json.dumps({"applications": [said]})), build_here(None))
        api.wait_until_running("shop", SECONDS)
        return shown("shop")

    assert deploy() == {"words": "one", "one": "1", "data": "data of one"}
    (folder / "data.txt").write_text("changed")
    assert deploy() == {"words": "one", "one": "1", "data": "changed"}
    said["deployments"] = [{"name": "Shop", "actor_options": {"runtime_env": {"py_modules": ["own/words.py"]}}}]
    assert deploy() == {"words": "one", "one": "1", "data": "changed"}, "the directory's own modules come first"
    said["deployments"] = [{"name": "Shop", "actor_options": {"runtime_env": {"env_vars": {"KS_ONE": "own"}}}}]
    assert deploy() == {"words": "one", "one": "own", "data": "changed"}
