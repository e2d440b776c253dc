"""Tasks and actors with packages that pip installs on the node, in real sessions and without any index."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pluggy
import pytest

import kernel
from kernel import exceptions
from kernel.testing.session import RunningSession, running_session
from plugins.environment_pip.tests.wheels import make_wheel

SECONDS = 300.0


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheels: two versions of one package, and what stands for one that every worker has imported."""
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("1.0", "2.0"):
        make_wheel(folder, "pip_test_greeting", version, {"pip_test_greeting.py": f"VERSION = {version!r}\n"})
    make_wheel(folder, "pip_test_needy", "1.0", {}, requires="pip_test_greeting>=3")
    make_wheel(folder, "pip_test_hook", "1.0", {"pip_test_hook.pth": "import os; os.environ['HOOKED'] = '1'\n"})
    make_wheel(folder, "pluggy", "99.0", other_pluggy())
    return folder


def other_pluggy() -> dict[str, str]:
    """Return the files of another version of a package that every worker has imported when it is forked."""
    files = {f"pluggy/{path.name}": path.read_text() for path in Path(pluggy.__file__).parent.glob("*.py")}
    files["pluggy/__init__.py"] += "\nVERSION = 'of the environment'\n"
    return files


@pytest.fixture(scope="module")
def session(wheels: Path) -> Iterator[RunningSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(wheels))
        patch.setenv("PIP_CONFIG_FILE", os.devnull)
        with running_session(num_cpus=2) as session:
            yield session


@kernel.remote
def greeting() -> tuple[str, str]:
    import pip_test_greeting

    return pip_test_greeting.VERSION, sys.executable


def built(session: RunningSession) -> list[str]:
    return sorted(os.listdir(os.path.join(session.directory, "environments")))


def test_tasks_have_the_packages_that_they_ask_for(session: RunningSession) -> None:
    one = greeting.options(runtime_env={"pip": ["pip_test_greeting==1.0"]})
    two = greeting.options(runtime_env={"pip": {"packages": ["pip_test_greeting"], "pip_check": False}})
    results = kernel.get([one.remote(), two.remote(), one.remote()], timeout=SECONDS)
    assert [version for version, _ in results] == ["1.0", "2.0", "1.0"]
    assert {python for _, python in results} == {sys.executable}, "forks do: nobody has imported it before"
    assert len(built(session)) == 2
    with pytest.raises(ModuleNotFoundError):
        kernel.get(greeting.remote(), timeout=SECONDS)


def test_an_actor_and_what_it_starts_have_them_too(session: RunningSession) -> None:
    @kernel.remote(runtime_env={"pip": ["pip_test_greeting==1.0"], "env_vars": {"PATH": "/mine:${PATH}"}})
    class Actor:
        def look(self) -> tuple[str, str, str]:
            import pip_test_greeting

            program = "import pip_test_greeting as g; print(g.VERSION)"
            child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
            return pip_test_greeting.VERSION, child.stdout.strip(), os.environ["PATH"]

        def inner(self) -> Any:
            return kernel.get(greeting.remote())[0]

    actor = Actor.remote()
    version, of_child, path = kernel.get(actor.look.remote(), timeout=SECONDS)
    assert (version, of_child) == ("1.0", "1.0")
    assert path.startswith("/mine:") and "/environments/pip-" in path.split(":")[1]
    assert kernel.get(actor.inner.remote(), timeout=SECONDS) == "1.0", "tasks inside inherit it"


def test_a_wheel_of_this_machine_is_sent(session: RunningSession, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "pip_test_mine", "1.0", {"pip_test_mine.py": "VERSION = 'mine'\n"})
    packed = kernel.pack_runtime_env({"pip": [str(wheel)]})
    wheel.unlink()

    @kernel.remote(runtime_env=packed)
    def mine() -> tuple[str, Any]:
        import pip_test_mine

        return pip_test_mine.VERSION, kernel.get_runtime_context().runtime_env

    assert kernel.get(mine.remote(), timeout=SECONDS) == ("mine", packed)


def test_another_version_of_what_is_imported_runs_in_an_interpreter_of_its_own(session: RunningSession) -> None:
    @kernel.remote(runtime_env={"pip": ["pluggy==99.0"], "env_vars": {"OWN": "1"}})
    def look() -> tuple[str, str, str, Any]:
        import pluggy

        return pluggy.VERSION, sys.executable, os.environ["OWN"], os.environ.get("OMP_NUM_THREADS")

    version, python, own, threads = kernel.get(look.remote(), timeout=SECONDS)
    assert (version, own, threads) == ("of the environment", "1", "1")
    assert "/environments/pip-" in python


def test_files_that_an_interpreter_reads_first_count(session: RunningSession) -> None:
    @kernel.remote(runtime_env={"pip": ["pip_test_hook"]})
    def hooked() -> str | None:
        return os.environ.get("HOOKED")

    assert kernel.get(hooked.remote(), timeout=SECONDS) == "1"


def test_what_can_not_be_installed_is_told_with_the_last_lines_of_pip(session: RunningSession) -> None:
    @kernel.remote(runtime_env={"pip": ["pip-test-that-there-is-not"]}, max_retries=0)
    def never() -> None: ...

    with pytest.raises(exceptions.RuntimeEnvError) as caught:
        kernel.get(never.remote(), timeout=SECONDS)
    text = str(caught.value)
    assert "runtime_env['pip'] can't be installed: pip-test-that-there-is-not; `" in text
    assert "ended with exit code 1, and wrote at last:" in text
    assert "No matching distribution found for pip-test-that-there-is-not" in text
    log = Path(session.directory, "logs", "environments.log").read_text()
    assert "No matching distribution found for pip-test-that-there-is-not" in log


def test_packages_that_do_not_fit_are_refused_by_the_check(session: RunningSession) -> None:
    options = ["--no-deps"]
    needy = {"packages": ["pip_test_needy"], "pip_install_options": options, "pip_check": True}

    @kernel.remote(runtime_env={"pip": needy})
    def never() -> None: ...

    with pytest.raises(exceptions.RuntimeEnvError, match="pip.test.needy 1.0 requires pip.test.greeting"):
        kernel.get(never.remote(), timeout=SECONDS)


def test_a_wrong_value_is_refused_at_once(session: RunningSession) -> None:
    with pytest.raises(exceptions.RuntimeEnvError, match=r"runtime_env\['pip'\] has no key 'packagez'"):
        greeting.options(runtime_env={"pip": {"packagez": []}}).remote()


def test_an_environment_without_packages_is_none(session: RunningSession) -> None:
    assert kernel.pack_runtime_env({"pip": []}) == {}
