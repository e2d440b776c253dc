"""What `kernel plugins new` writes: fits its contract, passes its own test, has the shape of our plugins."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_conformance.cli.plugin_template import GROUPS, TEMPLATES, files, write

from kernel.plugins import KINDS, PluginManager
from kernel_spec import CONTRACTS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def test_every_contract_has_a_template() -> None:
    assert set(TEMPLATES) == {*CONTRACTS, "engine", "network"}
    assert set(TEMPLATES) == {*KINDS, *GROUPS}


def test_written_plugins_pass_their_tests(tmp_path: Path) -> None:
    for kind in TEMPLATES:
        write(kind, "my-thing", tmp_path / kind)
    path = os.pathsep.join([*(str(tmp_path / kind) for kind in TEMPLATES), *filter(None, sys.path)])
    command = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", "-p", "no:cacheprovider", str(tmp_path)]
    own = {"PYTHONPATH": path, "PYTEST_DEBUG_TEMPROOT": str(tmp_path)}  # it would remove what earlier runs have left
    result = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **own}, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "skipped" not in result.stdout


def test_written_plugins_are_formatted(tmp_path: Path) -> None:
    for kind in TEMPLATES:
        write(kind, "my-thing", tmp_path / kind)
        for arguments in (["check", "--select", "E,F,I,UP,B,SIM,RUF"], ["format", "--diff"]):
            command = [sys.executable, "-m", "ruff", *arguments, "."]
            result = subprocess.run(command, cwd=tmp_path / kind, capture_output=True, text=True, timeout=200)
            assert result.returncode == 0, f"{kind}: {result.stdout}"


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_shape_is_that_of_our_plugins(kind: str) -> None:
    written = files(kind, "my-thing")
    project = tomllib.loads(written["pyproject.toml"])
    package = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"][0]
    assert project["project"]["name"] == package.replace("_", "-")
    ((_, target),) = project["project"]["entry-points"][GROUPS.get(kind, "kernel.plugins")].items()
    target = target.partition(":")[0]
    assert f"{target.replace('.', '/')}.py" in written or f"{target}/__init__.py" in written
    for path, text in written.items():
        assert "$" not in text, f"{path} has an unfilled placeholder"
        if path.endswith(".py"):
            ast.parse(text)
            assert ast.get_docstring(ast.parse(text)), f"{path} has no docstring"


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_readme_says_what_is_offered_and_how_it_is_found(kind: str) -> None:
    written = files(kind, "my-thing")
    offer = written["README.md"].partition("## What this distribution offers\n")[2]
    ((group, points),) = tomllib.loads(written["pyproject.toml"])["project"]["entry-points"].items()
    ((name, target),) = points.items()
    assert f"By the entry point `{name}` in the group `{group}`" in " ".join(offer.split()) and f"`{target}`" in offer
    module = ast.parse(written.get(f"{target.replace('.', '/')}.py", ""))
    filled = {each.name for each in module.body if isinstance(each, ast.FunctionDef) and each.decorator_list}
    assert {word for word in re.findall(r"\| `(kernel_\w+)` \|", offer)} == (set() if kind in GROUPS else filled)
    assert kind in GROUPS or len(filled) == 2


@pytest.mark.parametrize("kind", [kind for kind in TEMPLATES if kind not in GROUPS])
def test_the_kernel_accepts_it(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"fit_{kind}"
    write(kind, name, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("KERNEL_CONFIG", str(tmp_path / "pyproject.toml"))
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    installed = list(project["project"]["entry-points"]["kernel.plugins"].items())
    manager = PluginManager.discover(installed=installed)
    assert manager.problems == {}
    if KINDS[kind].pattern == "driver":
        assert callable(manager.choose(kind, name))
    elif KINDS[kind].pattern == "named":
        assert len(manager.choose_many(kind, name)) == 1
    else:
        assert len(manager.all(kind)) >= 1
