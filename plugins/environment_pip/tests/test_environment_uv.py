"""Tasks with packages that uv installs on the node, in a real session and without any index."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_environment_pip.requirements import UV
from kernel_environment_pip.virtual_environment import VirtualEnvironment

import kernel
from kernel import exceptions
from kernel.testing.session import RunningSession, running_session
from plugins.environment_pip.tests.wheels import make_wheel

SECONDS = 300.0


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSession]:
    """A session whose nodes install from a folder of wheels alone."""
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("1.0", "2.0"):
        make_wheel(folder, "uv_test_greeting", version, {"uv_test_greeting.py": f"VERSION = {version!r}\n"})
    make_wheel(folder, "uv_test_needy", "1.0", {}, requires="uv_test_greeting>=3")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_NO_INDEX", "1")
        patch.setenv("UV_FIND_LINKS", str(folder))
        patch.setenv("UV_NO_CONFIG", "1")
        with running_session(num_cpus=2) as session:
            yield session


@kernel.remote
def greeting() -> tuple[str, str, str]:
    import uv_test_greeting

    return uv_test_greeting.VERSION, sys.executable, os.environ["VIRTUAL_ENV"]


def test_tasks_have_the_packages_that_they_ask_for(session: RunningSession) -> None:
    one = greeting.options(runtime_env={"uv": ["uv_test_greeting==1.0"]})
    two = greeting.options(runtime_env={"uv": {"packages": ["uv_test_greeting"], "uv_check": True}})
    results = kernel.get([one.remote(), two.remote(), one.remote()], timeout=SECONDS)
    assert [version for version, _, _ in results] == ["1.0", "2.0", "1.0"]
    assert {python for _, python, _ in results} == {sys.executable}, "forks do: nobody has imported it before"
    assert all("/environments/uv-" in folder for _, _, folder in results)
    with pytest.raises(ModuleNotFoundError):
        kernel.get(greeting.remote(), timeout=SECONDS)


def test_what_can_not_be_installed_is_told_with_the_last_lines_of_uv(session: RunningSession) -> None:
    with pytest.raises(exceptions.RuntimeEnvError) as caught:
        kernel.get(greeting.options(runtime_env={"uv": ["uv-test-that-there-is-not"]}).remote(), timeout=SECONDS)
    text = str(caught.value)
    assert "runtime_env['uv'] can't be installed: uv-test-that-there-is-not; `" in text
    assert "ended with exit code 1, and wrote at last:" in text and "uv-test-that-there-is-not was not found" in text


def test_packages_that_do_not_fit_are_refused_by_the_check(session: RunningSession) -> None:
    needy = {"packages": ["uv_test_needy"], "uv_pip_install_options": ["--no-deps"], "uv_check": True}
    with pytest.raises(exceptions.RuntimeEnvError, match=r"uv-test-needy.* requires .*uv-test-greeting>=3"):
        kernel.get(greeting.options(runtime_env={"uv": needy}).remote(), timeout=SECONDS)


@pytest.mark.parametrize(("version", "found"), [("==0.9", True), ("", False)])
def test_another_uv_is_fetched_by_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, found: bool
) -> None:
    """One of a version, and one for a node that has none; it is not among the packages of the environment."""
    environment = VirtualEnvironment(str(tmp_path), UV)
    ran: list[Any] = []
    monkeypatch.setattr(environment, "_run", lambda command, wanted: ran.append((command, wanted)))
    if not found:
        monkeypatch.setitem(sys.modules, "uv", None)  # type: ignore[arg-type]
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if name == "pip" else None)
    (program,) = environment._uv(version)
    assert program == f"{tmp_path}/uv/bin/uv"
    ((command, wanted),) = ran
    assert command[-3:] == ["--target", f"{tmp_path}/uv", f"uv{version}"] and wanted == [f"uv{version}"]
