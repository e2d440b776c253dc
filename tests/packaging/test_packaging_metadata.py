"""What the project files say: one version, siblings by bare name, every import declared, no plugin forgotten."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from import_statements import import_statements

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "plugins" / "conformance" / "kernel_conformance" / "cli" / "templates"
HOOK = ROOT / "tools" / "workspace_metadata.py"
DISTRIBUTIONS = [ROOT / "spec", ROOT, *sorted(path.parent for path in (ROOT / "plugins").glob("*/pyproject.toml"))]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/pyproject.toml"))

OPTIONAL: dict[str, set[str]] = {
    "kernel": {"cryptography"},
    "kernel-compat-ray": {"gymnasium"},
    "kernel-local-mode": {"kernel"},  # which needs it
    "kernel-parallel": {"joblib", "threadpoolctl"},
    "kernel-serve": {
        "cryptography",
        "fastapi",
        "grpcio",
        "grpcio-health-checking",
        "grpcio-reflection",
        "h2",
        "hyperframe",
        "opentelemetry-api",
        "opentelemetry-sdk",
        "pillow",
        "protobuf",
        "pydantic",
        "scikit-learn",
        "torch",
        "watchfiles",
    },
    "kernel-rllib": {"torch"},
    "kernel-runs": {"crc32c", "google-crc32c"},
    "kernel-testing": {"pytest"},
    "kernel-tune": {"keras", "lightgbm", "scikit-learn", "torch", "xgboost"},
}
"""Distribution to third-party ones that only parts of it need which say so themselves (testing, certificates, gRPC)."""

DISTRIBUTION_OF = {
    "pynvml": "nvidia-ml-py",
    "grpc": "grpcio",
    "google": "protobuf",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
}
"""Modules whose distribution has another name, for where it is not installed."""


def project(folder: Path) -> dict[str, Any]:
    """Return the parsed project file of a distribution."""
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


def hook_of(folder: Path) -> dict[str, Any]:
    """Return the build hook's table."""
    return project(folder)["tool"]["hatch"]["metadata"]["hooks"]["custom"]


def name_of(requirement: str) -> str:
    """Return the normalized name in a requirement."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None, requirement
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def dependencies(folder: Path) -> set[str]:
    """Return the names of the distributions that a distribution depends on."""
    data = project(folder)["project"]
    return {name_of(item) for item in data.get("dependencies", []) or hook_of(folder)["dependencies"]}


def imported(package: Path) -> Iterator[tuple[str, str]]:
    """Yield file and top-level module of every absolute import in a package, outside of `if TYPE_CHECKING`."""
    for file in sorted(package.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node, for_types in import_statements(tree):
            if for_types or (isinstance(node, ast.ImportFrom) and (node.level or not node.module)):
                continue
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            for name in names:
                yield str(file.relative_to(package.parent)), name.split(".")[0]


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda folder: folder.name)
def test_version_and_siblings_come_from_the_hook(folder: Path) -> None:
    data, hook = project(folder), hook_of(folder)
    assert "version" not in data["project"] and {"version", "dependencies"} <= set(data["project"]["dynamic"])
    assert (folder / hook["path"]).resolve() == HOOK
    assert data["tool"]["hatch"]["metadata"]["allow-direct-references"] is True
    assert data["project"]["requires-python"] == ">=3.10"
    extras = hook.get("optional-dependencies", {}).values()
    for item in [*hook["dependencies"], *(item for items in extras for item in items)]:
        if name_of(item) == "kernel" or name_of(item).startswith("kernel-"):
            assert item == name_of(item), f"{item!r}: siblings are written by their bare name"


@pytest.mark.parametrize("folder", DISTRIBUTIONS[2:], ids=lambda folder: folder.name)
def test_a_plugin_has_one_name_with_three_punctuations(folder: Path) -> None:
    data = project(folder)
    package = f"kernel_{folder.name}"
    assert data["project"]["name"] == package.replace("_", "-")
    assert data["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [package]
    points = data["project"]["entry-points"]
    if "kernel.plugins" in points:
        assert points["kernel.plugins"] == {folder.name: f"{package}.plugin"}
    if "kernel.engines" in points:
        assert all(target.startswith(f"{package}.") for target in points["kernel.engines"].values())
    if "kernel.libraries" in points:
        mounted = "control_plane" if folder.name == "control_grpc" else folder.name  # whatever it speaks
        assert points["kernel.libraries"] == {mounted: package}
    assert points.keys() & {"kernel.engines", "kernel.plugins", "kernel.libraries"}
    for file in ("README.md", "CHANGELOG.md", f"{package}/__init__.py", "tests"):
        assert (folder / file).exists(), f"{folder.name} has no {file}"


def test_the_plugins_extra_names_every_back_end_that_needs_no_server() -> None:
    named = {name_of(item) for item in hook_of(ROOT)["optional-dependencies"]["plugins"]}
    back_ends = {
        project(folder)["project"]["name"]
        for folder in DISTRIBUTIONS[2:]
        if not {"kernel.engines", "kernel.libraries"} & project(folder)["project"]["entry-points"].keys()
    }
    need_a_server = {"kernel-metadata-redis", "kernel-spill-fsspec"}
    assert named >= back_ends - need_a_server and not named & need_a_server


@pytest.mark.parametrize("folder", [*DISTRIBUTIONS, *EXAMPLES], ids=lambda folder: folder.name)
def test_all_are_built_by_the_same(folder: Path) -> None:
    """So what is needed to build the kernel, and a plugin, is enough for every one."""
    assert project(folder)["build-system"] == {"requires": ["hatchling>=1.24"], "build-backend": "hatchling.build"}
    new = (TEMPLATES / "pyproject.toml.template").read_text(encoding="utf-8")
    assert new.startswith('[build-system]\nrequires = ["hatchling>=1.24"]\nbuild-backend = "hatchling.build"\n')


def test_pytest_finds_every_package_without_an_install() -> None:
    listed = project(ROOT)["tool"]["pytest"]["ini_options"]["pythonpath"]
    packages = [str(folder.relative_to(ROOT)) for folder in [*DISTRIBUTIONS, *EXAMPLES]]
    assert sorted(listed) == sorted([*packages, "tools"]), "and pytest's own plugins"


@cache
def owners_of_modules() -> Mapping[str, list[str]]:
    """Return the distributions that hold each module; reading them all takes half a second."""
    return importlib.metadata.packages_distributions()


@pytest.mark.parametrize("folder", [*DISTRIBUTIONS, *EXAMPLES], ids=lambda folder: folder.name)
def test_every_import_is_declared(folder: Path) -> None:
    data = project(folder)
    (package,) = data["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    allowed = dependencies(folder) | {name_of(data["project"]["name"])} | OPTIONAL.get(data["project"]["name"], set())
    origin = owners_of_modules()
    wrong = []
    for file, module in imported(folder / package):
        if module in sys.stdlib_module_names or module in ("tomli", "kernel", package):
            continue
        owners = {name_of(owner) for owner in origin.get(module, [])}
        owners.add(DISTRIBUTION_OF.get(module, name_of(module)))
        if not owners & allowed:
            wrong.append(f"{file} imports {module}, which {data['project']['name']} does not depend on")
    assert not wrong, "\n".join(sorted(set(wrong)))
