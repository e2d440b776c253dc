"""What may be given as `runtime_env["pip"]` and `["uv"]`, and what becomes of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from kernel_environment_pip import plugin
from kernel_environment_pip.builder import PackageEnvironment
from kernel_environment_pip.requirements import PIP, UV, packages_of
from kernel_environment_pip.virtual_environment import modules_of, node_lines

from kernel.conformance.environment import EnvironmentConformance
from kernel_spec.errors import RuntimeEnvError


class TestPipEnvironment(EnvironmentConformance):
    make_builder = staticmethod(plugin.make_pip_builder)
    values: Any = plugin.CONFORMANCE["environment"]["values"]
    wrong_values: Any = plugin.CONFORMANCE["environment"]["wrong_values"]


class TestUvEnvironment(EnvironmentConformance):
    make_builder = staticmethod(plugin.make_uv_builder)
    values: Any = plugin.CONFORMANCE["environment"]["values"]
    wrong_values: Any = plugin.CONFORMANCE["environment"]["wrong_values"]


def nothing_is_sent(path: str) -> str:
    raise AssertionError(f"{path} is sent")


def prepared(value: Any) -> dict[str, Any]:
    PIP.check(value)
    return PIP.prepare(value, nothing_is_sent)


def test_all_forms_mean_the_same(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# ours\nrequests==2.32.3  # pinned\n\n-r more.txt\n")
    (tmp_path / "more.txt").write_text("attrs >= 20, \\\n< 30\n--index-url https://example.org/simple#x\n")
    packages = ["requests==2.32.3", "attrs >= 20,  < 30", "--index-url https://example.org/simple#x"]
    expected = {"packages": packages, "pip_check": False, "pip_version": "", "pip_install_options": []}
    assert prepared(packages) == prepared(tuple(packages)) == prepared({"packages": packages}) == expected
    assert prepared(str(tmp_path / "requirements.txt")) == prepared(tmp_path / "requirements.txt") == expected
    assert prepared({"packages": str(tmp_path / "requirements.txt"), "pip_check": False}) == expected


def test_pip_itself_can_be_chosen() -> None:
    given = {"packages": ["a"], "pip_check": True, "pip_version": "24.0", "pip_install_options": ["--pre"]}
    assert prepared(given) == {**given, "pip_version": "==24.0"}
    assert prepared({**given, "pip_version": ">=24"})["pip_version"] == ">=24"


def test_uv_is_told_the_same_under_keys_of_its_own() -> None:
    given = {"packages": ["a"], "uv_check": True, "uv_version": "0.9", "uv_pip_install_options": ["--pre"]}
    UV.check(given)
    assert UV.prepare(given, nothing_is_sent) == {**given, "uv_version": "==0.9"}
    with pytest.raises(RuntimeEnvError) as caught:
        UV.check({"packages": ["a"], "pip_check": True})
    assert str(caught.value) == "runtime_env['uv'] has no key 'pip_check'; did you mean 'uv_check'?"


def test_no_packages_mean_nothing() -> None:
    assert prepared([]) == prepared({"packages": ["  # nothing"]}) == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "must be a list of requirements such as 'requests==2.32.3', or the path of a file of them, not 5"),
        ([5], "must be a list of strings such as 'requests==2.32.3', not of 5"),
        ({"package": ["a"]}, "has no key 'package'; did you mean 'packages'?"),
        ({"x": 1}, "has no key 'x'; it has packages, pip_check, pip_version, pip_install_options"),
        ({"pip_check": True}, "must say which packages, as in {'packages': ['requests==2.32.3']}"),
        ({"packages": 5}, "['packages'] must be a list of requirements"),
        ({"packages": [], "pip_check": 1}, "['pip_check'] must be True or False, not 1"),
        ({"packages": [], "pip_version": 24}, "['pip_version'] must be a version such as '==24.0', not 24"),
        ({"packages": [], "pip_install_options": "--pre"}, "must be a list of options of pip, not '--pre'"),
        ("/nowhere/r.txt", "names the file /nowhere/r.txt, which can't be read: No such file or directory"),
        (["-e ./here"], "has '-e ./here', an editable install of this machine, which nodes do not have"),
        (["-c limits.txt"], "has '-c limits.txt', a file of this machine, which nodes do not have"),
        (["./here"], "has './here', a folder of this machine, which nodes do not have; give a wheel of it"),
        (["./a.whl"], "names './a.whl', and there is no file"),
    ],
)
def test_what_can_not_be_meant_is_refused(value: Any, text: str) -> None:
    with pytest.raises(RuntimeEnvError) as caught:
        prepared(value)
    assert str(caught.value).startswith("runtime_env['pip']") and text in str(caught.value)


def test_a_file_that_includes_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("-r b.txt")
    (tmp_path / "b.txt").write_text("--requirement=a.txt")
    with pytest.raises(RuntimeEnvError, match=r"a\.txt includes itself, by .*a\.txt and .*b\.txt"):
        prepared(tmp_path / "a.txt")


def test_archives_are_sent(tmp_path: Path) -> None:
    (tmp_path / "mine-1.0-py3-none-any.whl").write_bytes(b"wheel")
    (tmp_path / "requirements.txt").write_text("./mine-1.0-py3-none-any.whl\nother @ https://example.org/o.whl\n")
    sent: list[str] = []

    def send(path: str) -> str:
        sent.append(path)
        return path if path.startswith("package:") else "package:0a"

    found = PIP.prepare(str(tmp_path / "requirements.txt"), send)
    assert found["packages"] == ["package:0a/mine-1.0-py3-none-any.whl", "other @ https://example.org/o.whl"]
    assert [Path(path).name for path in sent] == ["mine-1.0-py3-none-any.whl"]
    assert packages_of(found) == ["package:0a"]
    assert PIP.prepare(found, send) == found, "what was prepared can be given again"


def test_options_of_the_builder_are_its_own() -> None:
    for field, make in (("pip", plugin.make_pip_builder), ("uv", plugin.make_uv_builder)):
        builder = make(build_seconds=5.0, cache_bytes=7.0)
        assert isinstance(builder, PackageEnvironment)
        assert (builder.field, builder.build_seconds, builder.cache_bytes) == (field, 5.0, 7.0)


def test_the_modules_of_a_folder_are_told_by_its_names() -> None:
    names = ["requests", "six.py", "_speed.cpython-311-x86_64-linux-gnu.so", "six-1.0.dist-info", "a-b"]
    assert modules_of(names) == ("_speed", "requests", "six")
    assert modules_of([*names, "distutils-precedence.pth"]) == ()


def test_the_node_is_seen_without_its_library(tmp_path: Path) -> None:
    site, other = tmp_path / "site-packages", tmp_path / "src"
    site.mkdir()
    other.mkdir()
    lines = node_lines([os.path.dirname(os.__file__), str(site), str(tmp_path / "missing"), str(other)])
    assert lines == [f"import site; site.addsitedir({str(site)!r})", str(other)]
