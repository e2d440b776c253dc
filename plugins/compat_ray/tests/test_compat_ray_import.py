"""`import kernel_compat_ray.install`: what it changes, what it leaves alone, and when it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(program: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program of its own, which may change what `import ray` means."""
    path = os.pathsep.join(path for path in sys.path if path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.run(
        [sys.executable, "-W", "always::DeprecationWarning:__main__", "-c", program],
        env={**environment, "PYTHONPATH": path, **more},
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_it_makes_ray_mean_kernel_here_and_in_workers():
    done = run(
        """
import kernel_compat_ray.install
import kernel
import ray
import kernel_compat_ray.install as again
again.install()
assert ray.get.__module__.startswith("kernel_compat_ray")
assert issubclass(ray.exceptions.RayTaskError, kernel.exceptions.TaskError)
kernel.init(num_cpus=1)

@kernel.remote
def inside():
    from ray.util.placement_group import placement_group
    import ray.exceptions
    return ray, ray.exceptions.RayError, kernel.exceptions.WorkerDiedError("made")

module, error, made = kernel.get(inside.remote())
assert module is ray and error is ray.exceptions.RayError
assert type(made) is ray.exceptions.WorkerCrashedError
print("the same")
"""
    )
    assert done.stdout == "the same\n", done.stderr


def test_it_refuses_beside_ray_itself(tmp_path: Path):
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text("real = True\n")
    done = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import ray; import kernel_compat_ray.install")
    assert done.returncode != 0
    assert "ImportError: Ray itself is loaded in this process already" in done.stderr
    assert "kernel ray-run SCRIPT" in done.stderr and str(tmp_path) in done.stderr


def test_it_comes_before_ray_on_the_path(tmp_path: Path):
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text("raise SystemExit('the other one')\n")
    done = run(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import kernel_compat_ray.install, ray; print(ray.wait)"
    )
    assert "kernel" not in done.stderr and done.stdout.startswith("<function wait"), done.stderr


def test_a_copy_of_what_makes_room_does_as_well(tmp_path: Path):
    made = "import kernel_compat_ray.run as run; print(run.DIRECTORY)"
    original = Path(run(made).stdout.strip()) / "ray" / "__init__.py"
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text(original.read_text())
    done = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import ray, ray.util.state; print(ray.put)")
    assert done.stdout.startswith("<function put"), done.stderr


REFUSALS = (
    ("import ray.nothing", "ModuleNotFoundError: kernel knows neither a name nor a module ray.nothing of Ray"),
    ("from ray import nothing", "ModuleNotFoundError: kernel knows neither a name nor a module ray.nothing of Ray"),
    ("ray.putt", "AttributeError: module 'ray' has no attribute 'putt'; did you mean 'put'?"),
    ("import ray.projects", "ModuleNotFoundError: ray.projects is not supported on kernel: run the commands by"),
    ("from ray.util.dask import x", "ModuleNotFoundError: ray.util.dask is not supported on kernel: use dask.dist"),
    ("ray.cpp_function('f')", "NotSupportedError: ray.cpp_function is not supported: kernel runs Python only"),
    ("ray.LoggingConfig.x", "NotSupportedError: ray.LoggingConfig is not supported: logging is configured by init"),
    ("class C(ray.Language): pass", "NotSupportedError: ray.Language is not supported: kernel runs Python only"),
    ("ray.remote()", "OptionError: use @ray.remote alone or with options"),
    ("ray.remote(ray.remote(f))", "OptionError: RemoteFunction(__main__.f) is remote already; use .options(...)"),
    ("ray.remote(f)()", "TypeError: remote function f() can't be called directly; use f.remote(...)"),
    ("ray.method()", "TypeError: @ray.method takes options: @ray.method(num_returns=2)"),
    ("ray.kill(f)", "ValueError: ray.kill() takes an actor's handle, not <function f"),
    ("ray.put(1, _owner=f)", "NotSupportedError: ray.put(_owner=...) is not supported: who calls put owns the object"),
    ("ray.wait([], wrong=1)", "TypeError: ray.wait() got an unexpected argument 'wrong'"),
    ("ray.get_actor('')", "ValueError: ray.get_actor() takes the name of an actor, which must not be empty"),
)
"""What a program does that can't be, and how the error begins."""


def test_what_is_not_there_says_so():
    program = f"""
import kernel_compat_ray.install
import ray
def f(): pass
for statement in {[statement for statement, _ in REFUSALS]!r}:
    try:
        exec(statement)
    except Exception as error:
        print(type(error).__name__, error, sep=": ")
    else:
        print("no error")
"""
    done = run(program)
    said = done.stdout.splitlines()
    assert len(said) == len(REFUSALS), done.stderr
    wrong = [(line, error) for line, (_, error) in zip(said, REFUSALS, strict=True) if not line.startswith(error)]
    assert not wrong


@pytest.mark.parametrize("library", ["tune", "serve"])
def test_a_library_is_that_of_kernel_or_says_what_to_install(library):
    for statement in (f"from ray import {library}", f"import ray.{library}"):
        done = run(f"import kernel_compat_ray.install, ray\n{statement}\nprint(ray.{library}.__name__)")
        missing = f"ModuleNotFoundError: the library kernel.{library} is not installed: pip install "
        assert done.stdout == f"ray.{library}\n" or missing in done.stderr


def test_tasks_find_names_of_ray_by_the_module_of_their_program():
    done = run(
        """
import kernel_compat_ray.install
import ray
from ray import serve, tune
ray.init(num_cpus=1)
inside = lambda: [tune.function(tune.uniform).__name__, serve.config.ProxyLocation.HeadOnly.value]
print(ray.get(ray.remote(inside).remote()))
"""
    )
    assert done.stdout == "['uniform', 'HeadOnly']\n", done.stderr


def test_a_library_under_an_old_name_is_the_same_module():
    done = run(
        """
import kernel_compat_ray.install
from kernel_compat_ray import names
names.LIBRARIES["ray.known"] = "parallel"
import ray.known
from ray import known
import kernel.parallel, kernel_parallel
assert ray.known is known is kernel.parallel is kernel_parallel
assert known.__name__ == known.__spec__.name == "kernel_parallel"
print("one module")
"""
    )
    assert done.stdout == "one module\n", done.stderr


def test_old_names_warn_at_the_line_of_the_program():
    done = run(
        "import kernel_compat_ray.install\nimport ray\nray.ObjectID\nfrom ray.services import get_node_ip_address\n"
    )
    assert "<string>:3: DeprecationWarning: ray.ObjectID is an old name; use ray.ObjectRef" in done.stderr
    assert "<string>:4: DeprecationWarning: ray.services is an old name; use ray._private.services" in done.stderr


def test_variables_of_ray_are_taken_over_unless_those_of_kernel_are_set():
    program = "import os, kernel_compat_ray.install; print(os.environ.get('KERNEL_ADDRESS'))"
    assert run(program, RAY_ADDRESS="ray://a:1").stdout == "kernel://a:1\n"
    assert run(program, RAY_ADDRESS="local").stdout == "None\n"
    assert run(program, RAY_ADDRESS="a:1", KERNEL_ADDRESS="b:2").stdout == "b:2\n"


def test_other_variables_are_honoured_or_said_to_be_without_effect(tmp_path: Path):
    (tmp_path / ".gitignore").write_text("left\n")
    for name in ("left", "out"):
        (tmp_path / name).write_text(name)
    program = f"""
import kernel_compat_ray.install, os, ray, warnings
ray.init(num_cpus=1)
def files():
    return sorted(name for name in os.listdir() if name in ("left", "out"))
given = {{"working_dir": {str(tmp_path)!r}, "excludes": ["out"]}}
print(ray.get(ray.remote(files).options(runtime_env=given).remote()))
ray.remote(lambda: 1 / 0).remote()
"""
    done = run(program, RAY_RUNTIME_ENV_IGNORE_GITIGNORE="1", RAY_IGNORE_UNHANDLED_ERRORS="1", RAY_TASK_MAX_RETRIES="7")
    assert done.stdout == "['left']\n", done.stderr
    assert "RAY_TASK_MAX_RETRIES has no effect on kernel: say max_retries= of the task" in done.stderr
    assert "nobody has asked" not in done.stderr
    assert run(program).stdout == "[]\n"
    read = "import os, kernel_compat_ray.install; print(os.environ.get('KERNEL_MEMORY_THRESHOLD'))"
    assert run(read, RAY_memory_usage_threshold="0.8").stdout == "0.8\n"
    assert run(read, RAY_memory_monitor_refresh_ms="0").stdout == "0\n"


def test_an_address_where_nobody_answers_is_a_connection_error(tmp_path: Path):
    done = run("import kernel_compat_ray.install, ray; ray.init(address='auto')", KERNEL_TMPDIR=str(tmp_path))
    assert "NoClusterError" in done.stderr and "kernel start --head" in done.stderr


def test_importing_ray_is_quick_to_load():
    program = "import kernel_compat_ray.install, ray, sys; print('numpy' in sys.modules, 'click' in sys.modules)"
    assert run(program).stdout == "False False\n"
