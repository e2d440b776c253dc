"""The values of the field `conda`, environments that a node has, and their versions of Python."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from kernel_environment_conda.description import check, prepare
from kernel_environment_conda.existing import find_prefix
from kernel_environment_conda.installation import node_version
from kernel_environment_conda.interpreter import worker_start

from kernel_spec.errors import RuntimeEnvError


@pytest.mark.parametrize(
    ("given", "prepared"),
    [
        ("torch", "torch"),
        ("/opt/envs/torch", "/opt/envs/torch"),
        ({"dependencies": []}, {}),
        ({"dependencies": None}, {}),
        ({"dependencies": ["a=1"]}, {"channels": ["conda-forge"], "dependencies": ["a=1"]}),
        (
            {"name": "x", "channels": ["mine", "nodefaults"], "dependencies": [{"pip": ["c"]}, "a"]},
            {"channels": ["mine"], "dependencies": ["a", {"pip": ["c"]}]},
        ),
    ],
)
def test_what_is_given_has_one_form(given: Any, prepared: Any) -> None:
    check(given)
    assert prepare(given) == prepared
    if prepared:
        check(prepared)
        assert prepare(prepared) == prepared


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("", "is empty; give the name of a conda environment"),
        (5, "must be the name of a conda environment of the nodes"),
        ({"dependency": []}, "has no key 'dependency'; did you mean 'dependencies'"),
        ({"channels": []}, "must say what is installed"),
        ({"channels": "mine", "dependencies": []}, r"\['channels'\] must be a list of channels"),
        ({"dependencies": "a"}, r"\['dependencies'\] must be a list"),
        ({"dependencies": [5]}, r"\['dependencies'\] must have strings such as 'numpy=2.0', not 5"),
        ({"dependencies": [{"uv": []}]}, r"may have one dict, \{'pip': \[...\]\}"),
        ({"dependencies": [{"pip": "a"}]}, "must be a list of requirements"),
        ({"dependencies": [{"pip": ["-e ."]}]}, "has '-e .', a file of this machine"),
    ],
)
def test_a_wrong_value_is_refused(given: Any, text: str) -> None:
    with pytest.raises(RuntimeEnvError, match=text):
        check(given)


def test_a_file_that_does_not_describe_an_environment_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "environment.yml"
    with pytest.raises(RuntimeEnvError, match=f"names the file {file}, which can't be read: No such file"):
        prepare(str(file))
    file.write_text("just a line")
    with pytest.raises(RuntimeEnvError, match=f"names the file {file}, which has no `dependencies:`"):
        prepare(str(file))
    file.write_text("{")
    with pytest.raises(RuntimeEnvError, match=f"names the file {file}, which can't be read: while parsing"):
        prepare(str(file))
    file.write_text("dependencies: [a]\nchanels: []\n")
    with pytest.raises(RuntimeEnvError, match="has no key 'chanels'; did you mean 'channels'"):
        prepare(file)


def environment(path: Path, python: str = "") -> str:
    (path / "conda-meta").mkdir(parents=True)
    if python:
        (path / "conda-meta" / f"python-{python}-0.json").write_text(json.dumps({"name": "python", "version": python}))
    return str(path)


def test_environments_are_found_where_conda_has_them(tmp_path: Path) -> None:
    root, home = tmp_path / "conda", tmp_path / "home"
    program = root / "bin" / "conda"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    (home / ".conda").mkdir(parents=True)
    variables = {"HOME": str(home), "PATH": str(program.parent), "CONDA_ENVS_DIRS": str(tmp_path / "shared")}
    base, of_root = environment(root), environment(root / "envs" / "one")
    of_home, shared = environment(home / ".conda" / "envs" / "two"), environment(tmp_path / "shared" / "three")
    listed = environment(tmp_path / "elsewhere" / "four")
    (home / ".conda" / "environments.txt").write_text(f"{base}\n{listed}\n")
    names = ("base", "one", "two", "three", "four", listed)
    assert [find_prefix(name, variables) for name in names] == [base, of_root, of_home, shared, listed, listed]
    with pytest.raises(RuntimeEnvError, match=f"names the environment 'five'.*looked at: .*{root}/envs/five"):
        find_prefix("five", variables)
    with pytest.raises(RuntimeEnvError, match="looked at: nothing, as no conda was found"):
        find_prefix("one", {})
    with pytest.raises(RuntimeEnvError, match=f"names {home}, which is no conda environment on this node"):
        find_prefix(str(home), variables)


def test_an_environment_of_another_python_is_refused_with_both_versions(tmp_path: Path) -> None:
    prefix = environment(tmp_path / "old", python="3.1.4")
    with pytest.raises(
        RuntimeEnvError,
        match=rf"has Python 3\.1\.4, and this node runs Python {node_version()}; .* python={node_version()}",
    ):
        worker_start(prefix, str(tmp_path))
    assert os.listdir(tmp_path) == ["old"]
