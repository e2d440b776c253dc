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
    "kernel-compat-ray": {"gymnasium"},
    "kernel-processes": {"cryptography"},
    "kernel-parallel": {"joblib", "threadpoolctl"},
    "kernel-serve": {
        "cryptography",
        "fastapi",
        "grpcio",
        "grpcio-health-checking",
        "grpcio-reflection",
        "opentelemetry-api",
        "opentelemetry-sdk",
        "pillow",
        "protobuf",
        "pydantic",
        "scikit-learn",
        "torch",
        "watchfiles",
    },
    "kernel-rllib": {"fsspec", "starlette", "torch"},
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


def package_of(folder: Path) -> Path:
    """Return the folder of the one package that a distribution has."""
    (package,) = project(folder)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return folder / package


FOLDERS = {project(folder)["project"]["name"]: folder for folder in DISTRIBUTIONS}
PACKAGES = {package_of(folder).name: name for name, folder in FOLDERS.items()}
"""Package to the distribution that has it."""
MOUNTED = {
    mounted: name
    for name, folder in FOLDERS.items()
    for mounted in project(folder)["project"].get("entry-points", {}).get("kernel.libraries", {})
}
"""What is mounted in the kernel, such as `tune`, to the distribution that has it."""

WITHOUT: dict[str, set[str]] = {
    "kernel-compat-ray": {"kernel-runs", "kernel-serve", "kernel-testing", "kernel-tune"},
    "kernel-engine": {"kernel"},
    "kernel-local-mode": {"kernel"},
    "kernel-rllib": {"kernel-serve"},
}
"""Distribution to siblings that it imports and doesn't declare: it can do without them, or they need it."""

NOT_IMPORTED: dict[str, set[str]] = {"kernel": {"kernel-engine", "kernel-local-mode"}}
"""Distribution to siblings that it declares and doesn't import: those that it looks up by name."""


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
    points = data["project"].get("entry-points", {})
    if "kernel.plugins" in points:
        assert points["kernel.plugins"] == {folder.name: f"{package}.plugin"}
    if "kernel.engines" in points:
        assert all(target.startswith(f"{package}.") for target in points["kernel.engines"].values())
    if "kernel.networks" in points:
        assert all(target.startswith(f"{package}.") for target in points["kernel.networks"].values())
    if "kernel.libraries" in points:
        mounted = "control_plane" if folder.name == "control_grpc" else folder.name  # whatever it speaks
        assert points["kernel.libraries"] == {mounted: package}
    found_by = {"kernel.engines", "kernel.libraries", "kernel.networks", "kernel.plugins", "kernel_serve.protocols"}
    assert points.keys() & found_by or folder.name == "engine", "what engines are made of is imported by them alone"
    for file in ("README.md", "CHANGELOG.md", f"{package}/__init__.py", "tests"):
        assert (folder / file).exists(), f"{folder.name} has no {file}"


def test_what_users_do_not_need_is_for_developers() -> None:
    extras = hook_of(ROOT)["optional-dependencies"]
    users, developers = ({name_of(item) for item in extras[name]} for name in ("plugins", "dev"))
    ours = set(FOLDERS) - dependencies(ROOT) - {"kernel"}
    for_authors = {"conformance", "simulation", "testing"}
    need_more = {
        "environment-conda",
        "environment-container",
        "metadata-redis",
        "provider-aws",
        "provider-gcp",
        "provider-kubernetes",
        "provider-local",
        "spill-fsspec",
    }  # what is large, or no library
    assert developers & ours == {f"kernel-{name}" for name in for_authors | need_more}
    assert users & ours == ours - developers


def test_what_users_need_brings_nothing_that_is_for_developers() -> None:
    """Not by a dependency of a dependency either."""
    todo = [name_of(item) for item in hook_of(ROOT)["optional-dependencies"]["plugins"]]
    brought = set[str]()
    while todo:
        name = todo.pop()
        if name in FOLDERS and name not in brought:
            brought.add(name)
            todo += dependencies(FOLDERS[name])
    assert not brought & {"kernel-conformance", "kernel-simulation", "kernel-testing"}


ON_ALL_CORES = {"kernel-processes", "kernel-scheduler-fifo", "kernel-store-plasma"}
"""The engine of many processes, and what it needs to start where nothing else is chosen."""


@pytest.mark.parametrize("extra", sorted(hook_of(ROOT)["optional-dependencies"].keys() - {"dev"}))
def test_what_runs_on_all_cores_brings_what_that_needs(extra: str) -> None:
    assert {name_of(item) for item in hook_of(ROOT)["optional-dependencies"][extra]} >= ON_ALL_CORES


def test_a_library_that_submits_tasks_has_an_extra_that_brings_all_cores() -> None:
    """Without one its extra is the folder of the plugin alone, and its tasks run one after the other."""
    back_ends_and_suites = {"conformance", "engine", "local_mode", "runs", "simulation"}
    users_of_kernel = {folder.name for folder in DISTRIBUTIONS[2:] if "kernel" in siblings(folder)}
    extras = {*hook_of(ROOT)["optional-dependencies"], "control_grpc"}  # whose extra is grpc
    assert users_of_kernel - back_ends_and_suites <= extras


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


def siblings(folder: Path) -> set[str]:
    """Return the distributions of this repository that a distribution imports, by whichever name.

    `kernel.tune` is `kernel_tune`, and what `importlib.import_module("kernel.tune")` names counts as well.
    """
    found = set()
    for file in package_of(folder).rglob("*.py"):
        for name in names_imported(file.read_text(encoding="utf-8")):
            host, _, rest = name.partition(".")
            owner = MOUNTED.get(rest.partition(".")[0], "kernel") if host == "kernel" else PACKAGES.get(host)
            found |= {owner} if owner else set()
    return found - {project(folder)["project"]["name"]}


def names_imported(text: str) -> Iterator[str]:
    """Yield what a file imports, outside of `if TYPE_CHECKING`: `import a.b`, and `a.b` of `from a import b`."""
    tree = ast.parse(text)
    for node, for_types in import_statements(tree):
        if isinstance(node, ast.Import) and not for_types:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level and not for_types:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
    yield from re.findall(r"""import_module\(["']([\w.]+)["']""", text)


@pytest.mark.parametrize("folder", [*DISTRIBUTIONS, *EXAMPLES], ids=lambda folder: folder.name)
def test_siblings_that_are_imported_are_declared_and_no_others(folder: Path) -> None:
    name = project(folder)["project"]["name"]
    declared = {sibling for sibling in dependencies(folder) if sibling in PACKAGES.values()}
    assert declared - NOT_IMPORTED.get(name, set()) == siblings(folder) - WITHOUT.get(name, set())


def test_what_needs_no_declaration_is_imported() -> None:
    imported = {name: siblings(folder) for name, folder in FOLDERS.items()}
    assert not {name: extra for name, of in WITHOUT.items() if (extra := of - imported[name])}
    declared = {name: dependencies(folder) for name, folder in FOLDERS.items()}
    assert not {
        name: extra for name, of in NOT_IMPORTED.items() if (extra := of & imported[name] or of - declared[name])
    }


@pytest.mark.parametrize(
    "line",
    [
        "import kernel_tune",
        "from kernel_tune import Tuner",
        "from kernel_tune.search import Searcher",
        "from kernel import tune",
        "import kernel.tune",
        "from kernel.tune import Tuner",
        "def later():\n    from kernel import tune",
        "tune = importlib.import_module('kernel.tune')",
    ],
)
def test_an_import_of_a_sibling_is_seen(tmp_path: Path, line: str) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "kernel-x"\n[tool.hatch.build.targets.wheel]\npackages = ["kernel_x"]\n'
    )
    (tmp_path / "kernel_x").mkdir()
    (tmp_path / "kernel_x" / "core.py").write_text(line + "\n")
    assert siblings(tmp_path) == {"kernel-tune"}


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda folder: folder.name)
def test_distributions_need_each_other_in_no_ring(folder: Path) -> None:
    """pip refuses to resolve one where a part of it is installed editable."""
    name, seen, todo = project(folder)["project"]["name"], set[str](), [folder]
    while todo:
        for sibling in dependencies(todo.pop()) & FOLDERS.keys() - seen:
            seen.add(sibling)
            todo.append(FOLDERS[sibling])
    assert name not in seen


@pytest.mark.parametrize("folder", [*DISTRIBUTIONS, *EXAMPLES], ids=lambda folder: folder.name)
def test_every_import_is_declared(folder: Path) -> None:
    data = project(folder)
    (package,) = data["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    allowed = dependencies(folder) | {name_of(data["project"]["name"])} | OPTIONAL.get(data["project"]["name"], set())
    origin = owners_of_modules()
    wrong = []
    for file, module in imported(folder / package):
        if module in sys.stdlib_module_names or module in ("tomli", package) or module in PACKAGES:
            continue
        owners = {name_of(owner) for owner in origin.get(module, [])}
        owners.add(DISTRIBUTION_OF.get(module, name_of(module)))
        if not owners & allowed:
            wrong.append(f"{file} imports {module}, which {data['project']['name']} does not depend on")
    assert not wrong, "\n".join(sorted(set(wrong)))
