"""Runtime environments: variables, working directory and modules, of a task and of the whole program."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import textwrap

import pytest

import kernel
from kernel import exceptions

pytestmark = pytest.mark.usefixtures("session")
SECONDS = 120.0


@kernel.remote
def variable(name):
    return os.environ.get(name)


@kernel.remote
def directory():
    return os.getcwd(), sorted(name for name in os.listdir(".") if not name.startswith("__"))


@kernel.remote
def read(path):
    with open(path) as file:
        return file.read()


@kernel.remote
def imported(name):
    return __import__(name).VALUE


@pytest.fixture
def project(tmp_path):
    """A directory with a data file, a module and a package."""
    root = tmp_path / "project"
    (root / "data").mkdir(parents=True)
    (root / "data" / "words.txt").write_text("hello")
    (root / "env_module.py").write_text("VALUE = 'module'\n")
    (root / "env_package").mkdir()
    (root / "env_package" / "__init__.py").write_text("from env_package.inner import VALUE\n")
    (root / "env_package" / "inner.py").write_text("VALUE = 'package'\n")
    (root / "secret.key").write_text("secret")
    return root


def packages(session):
    return sorted(os.listdir(os.path.join(session["session_dir"], "packages")))


# -- variables ---------------------------------------------------------------------------------------------------------


def test_variables_of_a_task():
    with_variable = variable.options(runtime_env={"env_vars": {"KT_A": "1", "KT_B": "two words"}})
    assert kernel.get([with_variable.remote("KT_A"), with_variable.remote("KT_B")]) == ["1", "two words"]
    assert kernel.get(variable.remote("KT_A")) is None


@pytest.mark.parametrize(
    ("environment", "field"),
    [
        ({"env_vars": 0}, "env_vars"),
        ({"env_vars": {"A": None}}, "env_vars"),
        ({"working_dir": 0}, "working_dir"),
        ({"py_modules": 0}, "py_modules"),
        ({"excludes": "x"}, "excludes"),
        ({"inherit": 0}, "inherit"),
    ],
)
@pytest.mark.parametrize("kind", [TypeError, ValueError, exceptions.RuntimeEnvError])
def test_a_field_of_a_wrong_type_is_refused_where_it_is_given(environment, field, kind):
    with pytest.raises(kind, match=rf"runtime_env\['{field}'\] must"):
        variable.options(runtime_env=environment)
    with pytest.raises(kind, match=rf"runtime_env\['{field}'\] must"):
        kernel.remote(runtime_env=environment)(type("Actor", (), {}))


def test_variables_do_not_leak_between_environments():
    tasks = [variable.options(runtime_env={"env_vars": {"KT_C": str(i % 3)}}).remote("KT_C") for i in range(12)]
    assert kernel.get(tasks) == [str(i % 3) for i in range(12)]
    assert kernel.get(variable.remote("KT_C")) is None


def test_equal_environments_share_workers():
    @kernel.remote
    def process():
        return os.getpid()

    first = process.options(runtime_env={"env_vars": {"KT_D": "1", "KT_E": "2"}})
    second = process.options(runtime_env={"env_vars": {"KT_E": "2", "KT_D": "1"}})
    other = process.options(runtime_env={"env_vars": {"KT_D": "other"}})
    pid = kernel.get(first.remote())
    assert kernel.get(second.remote()) == pid
    assert kernel.get(other.remote()) != pid


def test_an_empty_environment_is_none():
    assert kernel.get(variable.options(runtime_env={}).remote("KT_NONE")) is None


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_working_directory_is_where_a_task_runs(project, session):
    where, names = kernel.get(directory.options(runtime_env={"working_dir": str(project)}).remote())
    assert names == ["data", "env_module.py", "env_package", "secret.key"]
    assert where.startswith(session["session_dir"])
    assert kernel.get(read.options(runtime_env={"working_dir": str(project)}).remote("data/words.txt")) == "hello"


def test_modules_of_the_working_directory_can_be_imported(project):
    here = imported.options(runtime_env={"working_dir": str(project)})
    assert kernel.get([here.remote("env_module"), here.remote("env_package")]) == ["module", "package"]
    with pytest.raises(ModuleNotFoundError):
        kernel.get(imported.remote("env_module"))


@pytest.mark.parametrize("relative", ["env_package", "env_module.py"])
def test_single_modules_and_packages(project, relative):
    name = relative.removesuffix(".py")
    task = imported.options(runtime_env={"py_modules": [str(project / relative)]})
    assert kernel.get(task.remote(name)) in ("module", "package")


def test_an_imported_module_can_be_given_itself(project, monkeypatch):
    monkeypatch.syspath_prepend(str(project))
    import env_package

    assert kernel.get(imported.options(runtime_env={"py_modules": [env_package]}).remote("env_package")) == "package"
    for name in ("env_package", "env_package.inner"):
        sys.modules.pop(name)


def test_files_can_be_left_out(project):
    environment = {"working_dir": str(project), "excludes": ["secret.key", "data"]}
    _, names = kernel.get(directory.options(runtime_env=environment).remote())
    assert names == ["env_module.py", "env_package"]


def test_what_git_ignores_stays_here(project):
    (project / ".gitignore").write_text("*.key\n/data\n")
    (project / "env_package" / ".gitignore").write_text("scratch.*\n")
    (project / "env_package" / "scratch.py").write_text("")
    _, names = kernel.get(directory.options(runtime_env={"working_dir": str(project)}).remote())
    assert names == [".gitignore", "env_module.py", "env_package"]
    module = {"py_modules": [str(project / "env_package")]}
    assert kernel.get(imported.options(runtime_env=module).remote("env_package")) == "package"
    with pytest.raises(ModuleNotFoundError):
        kernel.get(imported.options(runtime_env=module).remote("env_package.scratch"))
    all_the_same = {"working_dir": str(project), "excludes": ["!data"]}
    assert kernel.get(read.options(runtime_env=all_the_same).remote("data/words.txt")) == "hello"


def test_what_can_not_be_packed_is_an_error_where_it_is_asked_for(project):
    (project / "data" / "again").symlink_to(project)
    with pytest.raises(exceptions.RuntimeEnvError, match="data/again can't be packed: it is a link to"):
        directory.options(runtime_env={"working_dir": str(project)}).remote()


def test_files_are_sent_once_by_their_content(project, session):
    before = packages(session)
    for _ in range(3):
        kernel.get(directory.options(runtime_env={"working_dir": str(project)}).remote())
    once = packages(session)
    assert len(once) <= len(before) + 1
    (project / "data" / "words.txt").write_text("changed")
    reader = read.options(runtime_env={"working_dir": str(project)})
    assert kernel.get(reader.remote("data/words.txt")) == "changed"
    assert len(packages(session)) == len(once) + 1


def test_a_package_does_not_depend_on_times(project, session):
    kernel.get(directory.options(runtime_env={"working_dir": str(project)}).remote())
    before = packages(session)
    os.utime(project / "data" / "words.txt", (1, 1))
    kernel.get(directory.options(runtime_env={"working_dir": str(project)}).remote())
    assert packages(session) == before


def test_programs_stay_executable(project):
    script = project / "run.sh"
    script.write_text("#!/bin/sh\necho ran\n")
    script.chmod(0o755)

    @kernel.remote(runtime_env={"working_dir": str(project)})
    def run():
        return os.popen("./run.sh").read()

    assert kernel.get(run.remote()) == "ran\n"


# -- the whole program, and nesting ------------------------------------------------------------------------------------


def test_an_environment_for_the_whole_program(fresh_session, project):
    fresh_session(runtime_env={"env_vars": {"KT_ALL": "all"}, "working_dir": str(project)})
    assert kernel.get(variable.remote("KT_ALL")) == "all"
    assert kernel.get(read.remote("data/words.txt")) == "hello"


def test_an_environment_of_a_task_adds_to_that_of_the_program(fresh_session, project):
    fresh_session(runtime_env={"env_vars": {"KT_ONE": "1", "KT_TWO": "2"}, "working_dir": str(project)})
    task = {"env_vars": {"KT_TWO": "two", "KT_THREE": "3"}}
    names = ["KT_ONE", "KT_TWO", "KT_THREE"]
    assert kernel.get([variable.options(runtime_env=task).remote(name) for name in names]) == ["1", "two", "3"]
    assert kernel.get(imported.options(runtime_env=task).remote("env_module")) == "module"


def test_children_inherit_the_environment_of_their_parent():
    @kernel.remote(runtime_env={"env_vars": {"KT_PARENT": "seen"}})
    def parent():
        own = {"env_vars": {"KT_CHILD": "own"}}
        child = variable.options(runtime_env=own)
        return kernel.get([variable.remote("KT_PARENT"), child.remote("KT_PARENT"), child.remote("KT_CHILD")])

    assert kernel.get(parent.remote()) == ["seen", "seen", "own"]


def test_actors_have_environments_too():
    @kernel.remote(runtime_env={"env_vars": {"KT_ACTOR": "yes"}})
    class Actor:
        def look(self):
            return os.environ.get("KT_ACTOR"), kernel.get(variable.remote("KT_ACTOR"))

    assert kernel.get(Actor.remote().look.remote()) == ("yes", "yes")


# -- packed beforehand, and not inherited ------------------------------------------------------------------------------


@kernel.remote
def own_environment():
    return kernel.get_runtime_context().runtime_env


def test_a_packed_environment_means_the_same_when_its_files_are_gone(project):
    given = {"working_dir": str(project), "py_modules": [str(project / "env_package")], "env_vars": {"KT_P": "1"}}
    packed = kernel.pack_runtime_env(given)
    assert packed == kernel.pack_runtime_env(given) == kernel.pack_runtime_env(packed)
    shutil.rmtree(project)
    assert kernel.get(read.options(runtime_env=packed).remote("data/words.txt")) == "hello"
    assert kernel.get(imported.options(runtime_env=packed).remote("env_package")) == "package"
    assert kernel.get(own_environment.options(runtime_env=packed).remote()) == packed


def test_changed_files_are_another_environment(project):
    before = kernel.pack_runtime_env({"working_dir": str(project)})
    (project / "data" / "words.txt").write_text("bye")
    assert kernel.pack_runtime_env({"working_dir": str(project)}) != before


def test_code_knows_the_environment_that_it_runs_in(fresh_session, project):
    fresh_session()
    assert kernel.get_runtime_context().runtime_env == {}
    assert kernel.get(own_environment.remote()) == {}
    kernel.shutdown()
    fresh_session(runtime_env={"env_vars": {"KT_ONE": "1"}, "working_dir": str(project)})
    program = kernel.pack_runtime_env({"env_vars": {"KT_ONE": "1"}, "working_dir": str(project)})
    assert kernel.get_runtime_context().runtime_env == program
    assert kernel.get(own_environment.remote()) == program
    inner = own_environment.options(runtime_env={"env_vars": {"KT_TWO": "2"}})
    assert kernel.get(inner.remote()) == {**program, "env_vars": {"KT_ONE": "1", "KT_TWO": "2"}}


def test_an_environment_may_have_nothing_of_the_one_around(fresh_session):
    fresh_session(runtime_env={"env_vars": {"KT_ONE": "1", "KT_TWO": "2"}})
    alone = variable.options(runtime_env={"env_vars": {"KT_TWO": "two"}, "inherit": False})
    assert kernel.get([alone.remote("KT_ONE"), alone.remote("KT_TWO")]) == [None, "two"]
    assert kernel.get(own_environment.options(runtime_env={"inherit": False}).remote()) == {}


def test_workers_see_the_programs_modules_and_directory(tmp_path):
    (tmp_path / "beside.py").write_text("VALUE = 'beside'\n")
    script = tmp_path / "main.py"
    script.write_text(
        textwrap.dedent(
            """
            import os
            import kernel
            import beside

            @kernel.remote
            def look():
                return beside.VALUE, os.getcwd()

            kernel.init(num_cpus=1)
            print(*kernel.get(look.remote()))
            """
        )
    )
    import subprocess

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.stdout.split() == ["beside", str(tmp_path)], done.stderr


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"env_var": {}}, "no field 'env_var'; did you mean 'env_vars'"),
        ({"nsight": "x"}, "no field 'nsight'; it has env_vars, working_dir, py_modules"),
        ({"env_vars": {"A": 1}}, r"\['env_vars'\] must map strings to strings, not 'A' to 1"),
        ({"env_vars": ["A"]}, r"\['env_vars'\] must map strings to strings, not a list"),
        ({"env_vars": {"A=B": "x"}}, r"'A=B'"),
        ({"working_dir": "/nowhere/at/all"}, r"\['working_dir'\] must be an existing directory, not '/nowhere/at/all'"),
        ({"working_dir": 5}, r"\['working_dir'\] must be an existing directory, not 5"),
        ({"py_modules": ["/nowhere.py"]}, r"\['py_modules'\] names '/nowhere.py', which does not exist"),
        ({"py_modules": "/tmp"}, r"\['py_modules'\] must be a list"),
        ({"py_modules": [5]}, r"\['py_modules'\]"),
        ({"excludes": "data"}, r"\['excludes'\] must be a list"),
        ({"inherit": "no"}, r"\['inherit'\] must be True or False, not 'no'"),
        ({"working_dir": "package:0123"}, "names 'package:0123', which this session does not have; give the directory"),
    ],
)
def test_bad_environments_are_refused_in_words(environment, text):
    with pytest.raises(exceptions.RuntimeEnvError, match=text):
        variable.options(runtime_env=environment).remote("A")


def test_a_bad_environment_of_the_program_leaves_no_session(fresh_session):
    with pytest.raises(exceptions.RuntimeEnvError, match="did you mean 'env_vars'"):
        fresh_session(runtime_env={"env_vars_": {}})
    assert not kernel.is_initialized()
    fresh_session()
    assert kernel.get(variable.remote("KT_NONE")) is None


def test_a_package_that_is_gone_from_a_node_is_fetched_again(fresh_session, project):
    info = fresh_session()
    pid_of_worker = kernel.remote(runtime_env={"working_dir": str(project)})(os.getpid)
    os.kill(kernel.get(pid_of_worker.remote()), signal.SIGKILL)
    shutil.rmtree(os.path.join(info["session_dir"], "packages"))
    assert kernel.get(pid_of_worker.remote(), timeout=SECONDS)


def test_a_package_that_is_gone_is_an_error_each_time(fresh_session, project):
    info = fresh_session()
    pid_of_worker = kernel.remote(runtime_env={"working_dir": str(project)})(os.getpid)
    os.kill(kernel.get(pid_of_worker.remote()), signal.SIGKILL)
    for folder in ("packages", "archives"):
        shutil.rmtree(os.path.join(info["session_dir"], folder))
    for _ in range(2):
        with pytest.raises(exceptions.RuntimeEnvError, match="is not on this node, and the head has it no more"):
            kernel.get(pid_of_worker.remote(), timeout=SECONDS)


# -- sessions of their own -------------------------------------------------------------------------------------------


def test_variables_may_name_others(fresh_session, monkeypatch):
    monkeypatch.setenv("KT_AROUND", "around")
    fresh_session()
    variables = {
        "KT_A": "${KT_AROUND}/${KT_B}",
        "KT_B": "b:${KT_NONE}:",
        "KT_AROUND": "more:${KT_AROUND}",
        "KT_C": "$KT_B $",
    }

    @kernel.remote
    def values():
        return [os.environ[name] for name in variables]

    expected = ["more:around/b::", "b::", "more:around", "$KT_B $"]
    assert kernel.get(values.options(runtime_env={"env_vars": variables}).remote(), timeout=SECONDS) == expected


# -- threads of numerical libraries ------------------------------------------------------------------------------------

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@kernel.remote
class Threads:
    def variables(self):
        return [os.environ.get(name) for name in THREADS]


@kernel.remote
def threads():
    return [os.environ.get(name) for name in THREADS]


def test_numerical_libraries_have_as_many_threads_as_the_call_has_cpus(fresh_session, monkeypatch):
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    fresh_session(num_cpus=3)
    for cpus, expected in ((3, "3"), (0.5, "1"), (2, "2"), (0, "1")):
        assert kernel.get(threads.options(num_cpus=cpus).remote(), timeout=SECONDS) == [expected] * 4
    actors = [Threads.remote(), Threads.options(num_cpus=2).remote()]
    assert kernel.get([actor.variables.remote() for actor in actors]) == [["1"] * 4, ["2"] * 4]
    del actors
    own = threads.options(num_cpus=2, runtime_env={"env_vars": {"OMP_NUM_THREADS": "7"}})
    assert kernel.get(own.remote(), timeout=SECONDS) == ["7", None, None, None]


def test_threads_that_the_program_has_set_stay(fresh_session, monkeypatch):
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    fresh_session(num_cpus=2)
    assert kernel.get(threads.options(num_cpus=2).remote(), timeout=SECONDS) == ["5", None, None, None]
