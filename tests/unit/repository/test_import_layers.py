"""Imports point one way: contracts, kernel from the ground up, plugins beside each other and never inside.

Every import counts, wherever in a file it stands: one hidden in a function is an arrow as well, and so is the name of a
module in a string, which somebody may import or run.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from pathlib import Path

import pytest
from import_statements import import_statements

ROOT = Path(__file__).resolve().parents[3]

LAYERS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "kernel": (
        (
            "commands",
            "defaults",
            "entry_points",
            "environments",
            "installing",
            "logs",
            "mounts",
            "pickling",
            "plugin_faults",
            "plugins",
            "working_directory",
        ),
        ("runtime",),
        ("api", "exceptions", "metrics"),
        ("",),  # kernel/__init__.py, the public face
        ("cli",),
    ),
    "kernel_engine": (
        ("messages", "metrics", "own_code", "signals", "terminal_text"),
        ("surroundings",),
        ("serialization",),
        ("failures",),
        ("objects", "tasks"),
        ("partial_runtime",),
        ("one_process",),
    ),
    "kernel_processes": (
        ("own_code", "system"),
        ("transport",),
        ("protocol",),
        ("runtime", "head", "node"),
        ("worker",),
        ("daemons",),
        ("session",),
        ("cli",),
    ),
}
"""The parts of `kernel` and of its engine, lowest first. A part may import itself, its neighbours of one line, and what
is below."""

HOUSE = ("kernel", "kernel_engine", "kernel_processes")
"""Of these packages, each may import those before it."""

APART = set(permutations(("kernel_processes.runtime", "kernel_processes.head", "kernel_processes.node"), 2))
"""What one part must not import of another, though it is no higher: what they share is in the protocol."""

NAMED = {
    ("kernel_processes.node.template", "kernel_processes.worker.main"),
    ("kernel_processes.node.template", "kernel_processes.worker.async_executor"),
    ("kernel", "kernel_engine.serialization.unpicklable_parts"),
    ("kernel.api.engines", "kernel_local_mode.engine"),
    ("kernel.api.engines", "kernel_processes.session.engine"),
}
"""Modules that are named in a string where they must not be imported.

They are the program that a template of workers becomes, what workers load before they are needed, the
engines that this project publishes, and the one function of theirs that is public.
"""
COMMANDS = ("kernel.cli.main", "kernel_processes.cli")
"""The table of commands, and where it leads."""
PROGRAMS = {"kernel.cli.main"}
"""What everybody may run, and so name."""

RANK = {
    (package, part): (HOUSE.index(package), rank)
    for package, layers in LAYERS.items()
    for rank, parts in enumerate(layers)
    for part in parts
}
PUBLIC = {"", "commands", "defaults", "exceptions", "metrics", "pickling"}
"""What others may import of `kernel`: the face, its errors, what commands and picklers share, metrics, and the
references."""

FOR_TESTS = {"conformance", "testing"}
"""Libraries for tests, by their mounted name: no others import them."""

SIBLINGS: Mapping[str, frozenset[str]] = {
    "conformance": frozenset(
        {
            "kernel.api.engines",
            "kernel.api.session",
            "kernel.cli.completion",
            "kernel.cli.plugins_command",
            "kernel.plugins",
            "kernel.runtime.interface",
            "kernel_engine.serialization.value_serializer",
        }
    ),
    "control_grpc": frozenset(
        {
            "kernel.cli.display",
            "kernel_processes.cli.client",
            "kernel_processes.head.control_plane",
            "kernel_processes.head.deferred",
            "kernel_processes.head.nodes",
            "kernel_processes.head.observation",
            "kernel_processes.node.session_ways",
            "kernel_processes.transport.reactor",
            "kernel_processes.transport.refusal_log",
        }
    ),
    "engine": frozenset(
        {
            "kernel.api.generators",
            "kernel.logs",
            "kernel.metrics.registry",
            "kernel.pickling",
            "kernel.plugin_faults",
            "kernel.runtime",
        }
    ),
    "engine_threads": frozenset({"kernel.runtime", "kernel_engine"}),
    "launcher": frozenset({"kernel.installing", "kernel.plugins"}),
    "local_mode": frozenset(
        {"kernel.logs", "kernel.plugins", "kernel.runtime", "kernel.working_directory", "kernel_engine"}
    ),
    "network_tcp": frozenset(
        {
            "kernel.logs",
            "kernel_engine.messages",
            "kernel_processes.node.store_link",
            "kernel_processes.system",
            "kernel_processes.transport",
        }
    ),
    "processes": frozenset(
        {
            "kernel.api",
            "kernel.cli",
            "kernel.entry_points",
            "kernel.environments",
            "kernel.installing",
            "kernel.logs",
            "kernel.plugin_faults",
            "kernel.plugins",
            "kernel.runtime.process_title",
            "kernel.runtime",
            "kernel.working_directory",
            "kernel_engine",
        }
    ),
    "serve_http2": frozenset(
        {
            "kernel_serve.logs",
            "kernel_serve.proxy.authority",
            "kernel_serve.proxy.extra_protocols",
            "kernel_serve.proxy.request_ids",
            "kernel_serve.proxy.server_state",
            "kernel_serve.settings",
        }
    ),
    "simulation": frozenset(
        {
            "kernel.cli.completion",
            "kernel.cli.display",
            "kernel.plugins",
            "kernel_processes.cli.client",
            "kernel_processes.runtime.leasing",
        }
    ),
    "testing": frozenset(
        {
            "kernel.api.session",
            "kernel.runtime.current",
            "kernel_network_tcp.transfer",
            "kernel_processes.daemons",
            "kernel_processes.node.overflow_server",
            "kernel_processes.node.session_ways",
            "kernel_processes.node.sessions",
            "kernel_processes.node.store_clients",
            "kernel_processes.node.store_disk",
            "kernel_processes.node.store_service",
            "kernel_processes.protocol.agent_config",
            "kernel_processes.system.children",
            "kernel_processes.system.processes",
            "kernel_processes.transport.addresses",
            "kernel_processes.transport.authentication",
            "kernel_processes.transport.reactor",
        }
    ),
}
"""The engines, and plugins that grew with them or with a library, and the inside of others that each may import.

The rest import none.

A package stands for all that is in it. What changes such a module looks after its siblings; their tests see all of it.
"""


@dataclass(frozen=True)
class Arrow:
    """Module `source` (a file) imports module `target` in `line`."""

    source: str
    file: Path
    line: int
    target: str
    named: bool = False
    """Whether it is the name of a module in a string: such an arrow may not point up, but closes no cycle."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {'names' if self.named else 'imports'} {self.target}"


def arrows(package: Path) -> list[Arrow]:
    """Return every import in the package at `package`, absolute and resolved to modules where the names are modules."""
    modules = {module_name(package, file): file for file in sorted(package.rglob("*.py"))}
    found = []
    for module, file in modules.items():
        text, path = file.read_text(encoding="utf-8"), file.relative_to(package.parent)
        tree = ast.parse(text, str(file))
        for line, target in imports(tree, module, file.name == "__init__.py", package.parent):
            found.append(Arrow(module, path, line, target))
        if QUOTED.search(text):
            found += [Arrow(module, path, line, target, named=True) for line, target in named(tree, package.parent)]
    return found


QUOTED = re.compile(r"""["']kernel(_\w+)?\.""")
DOTTED = re.compile(r"kernel(_\w+)?(\.\w+)+(:\w+)?")
PACKAGES = {
    path.parent.name: path.parent.parent
    for path in (*ROOT.glob("kernel/__init__.py"), *ROOT.glob("plugins/*/kernel_*/__init__.py"))
}
"""Name to folder of the packages here."""


def named(tree: ast.Module, root: Path) -> Iterator[tuple[int, str]]:
    """Yield line and name of each module of the kernel that a whole string names, or whose attribute it names.

    A package is none: loggers have such names as well.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            parts = node.value.partition(":")[0].split(".")
            for length in range(2, len(parts) + 1):
                if any(file.with_suffix(".py").is_file() for file in places(root, parts[:length])):
                    yield node.lineno, ".".join(parts[:length])


def places(root: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Yield where a module may be: below `root`, or in the package of this repository that has the name."""
    yield root.joinpath(*parts)
    if parts[0] in PACKAGES:
        yield PACKAGES[parts[0]].joinpath(*parts)


@cache
def arrows_here(package: Path) -> list[Arrow]:
    """Return the arrows of a package of this repository, read once for all tests."""
    return arrows(package)


def module_name(package: Path, file: Path) -> str:
    """Return the dotted name of `file`."""
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.Module, module: str, is_package: bool, root: Path) -> Iterator[tuple[int, str]]:
    """Yield line and target of each import in `tree`, those for type checkers and in functions included."""
    for node, _ in import_statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        else:
            base = node.module or ""
            if node.level:
                here = module.split(".") if is_package else module.split(".")[:-1]
                here = here[: len(here) - node.level + 1]
                base = ".".join([*here, *filter(None, [node.module])])
            for alias in node.names:
                found = places(root, (*base.split("."), alias.name))
                is_module = any(inner.with_suffix(".py").is_file() or inner.is_dir() for inner in found)
                yield node.lineno, f"{base}.{alias.name}" if is_module else base


def part_of(module: str) -> tuple[str, str]:
    """Return the package and the part of it that a module belongs to: of `kernel.api.actor` "kernel" and "api"."""
    package, _, rest = module.partition(".")
    return package, rest.partition(".")[0]


def upward(found: list[Arrow]) -> list[str]:
    """Return the arrows inside the house that point up, as text."""
    wrong = []
    for arrow in found:
        source, target = part_of(arrow.source), part_of(arrow.target)
        if target[0] not in HOUSE or (arrow.source, arrow.target) in NAMED:
            continue
        if arrow.named and arrow.source == COMMANDS[0] and is_inside(arrow.target, {COMMANDS[1]}):
            continue
        here = f"has no place in LAYERS of {Path(__file__).name}"
        if source not in RANK:
            wrong.append(f"{arrow.file}: {'.'.join(source)} {here}")
        elif target not in RANK:
            wrong.append(f"{arrow}, which {here}")
        elif RANK[target] > RANK[source]:
            wrong.append(f"{arrow}, which is above it")
        elif (".".join(source), ".".join(target)) in APART:
            wrong.append(f"{arrow}, which is beside it: they share kernel_processes.protocol")
    return sorted(set(wrong))


def cycle(found: list[Arrow]) -> list[str]:
    """Return the modules of one import cycle, or an empty list. Imports for types and in functions count."""
    modules = {arrow.source for arrow in found}
    graph: dict[str, set[str]] = {}
    for arrow in found:
        if not arrow.named and arrow.target in modules and arrow.target != arrow.source:
            graph.setdefault(arrow.source, set()).add(arrow.target)
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for target in sorted(graph.get(module, ())):
            if round_trip := visit(target, [*path, module]):
                return round_trip
        done.add(module)
        return []

    for module in sorted(graph):
        if round_trip := visit(module, []):
            return round_trip
    return []


def packages_of(folder: Path) -> list[Path]:
    """Return the packages of a plugin's or an example's folder."""
    return [path.parent for path in sorted(folder.glob("*/__init__.py")) if path.parent.name != "tests"]


SHARED = "kernel_runs"
"""The one plugin that libraries may import: the floor that they share. Back ends may not."""


def is_inside(module: str, allowed: Collection[str]) -> bool:
    """Return whether a module is one of `allowed`, or in a package of them."""
    return any(module == one or module.startswith(f"{one}.") for one in allowed)


def trespasses(
    found: list[Arrow],
    package: str,
    *,
    public: bool,
    tests: bool,
    library: bool = False,
    inside: Collection[str] = (),
) -> list[str]:
    """Return what a plugin imports of others' insides: `public` may use `import kernel`, tests the kits for them too.

    A `library` may import the floor that libraries share; a sibling of the engine what of the `inside` of it is named.
    """
    wrong = []
    for arrow in found:
        top = arrow.target.split(".")[0]
        if top.startswith("kernel_") and top not in ("kernel_spec", package, SHARED if library else package):
            if arrow.named or is_inside(arrow.target, inside):
                continue
            wrong.append(f"{arrow}: a plugin imports no other plugin")
        if top == "kernel":
            part = part_of(arrow.target)[1]
            allowed = PUBLIC if tests or public else set()
            closed = ("kernel", part) in RANK or (part in FOR_TESTS and not tests)
            if arrow.named and (tests or arrow.target in PROGRAMS):
                continue  # tests may look at what they name
            if closed and part not in allowed and not is_inside(arrow.target, inside):
                wrong.append(
                    f"{arrow}: {'only the public kernel API' if public else 'only kernel_spec'} is for plugins"
                )
    return wrong


def distributions() -> list[Path]:
    """Return the folders of all plugins and examples."""
    return [
        path.parent for where in ("plugins", "examples") for path in sorted((ROOT / where).glob("*/pyproject.toml"))
    ]


def is_public_user(folder: Path) -> bool:
    """Return whether a distribution builds on the public API (mounts a library, adds commands) or on contracts only."""
    project = (folder / "pyproject.toml").read_text(encoding="utf-8")
    return '"kernel.libraries"' in project or '"kernel"' in project


def is_library(folder: Path) -> bool:
    """Return whether a distribution mounts a library."""
    return '"kernel.libraries"' in (folder / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "package",
    ["kernel", "spec/kernel_spec", "plugins/engine/kernel_engine", "plugins/processes/kernel_processes"],
)
def test_dataclasses_are_those_that_start_soon(package: str) -> None:
    """The standard library's take half a millisecond each, in every process that imports them."""
    files = [file for file in sorted((ROOT / package).rglob("*.py")) if file.name != "dataclass.py"]
    standard = re.compile(r"^\s*from dataclasses import .*\bdataclass\b|@dataclasses\.dataclass", re.MULTILINE)
    wrong = [str(file.relative_to(ROOT)) for file in files if standard.search(file.read_text(encoding="utf-8"))]
    assert not wrong, f"import dataclass from kernel_spec.dataclass in {', '.join(wrong)}"


def test_contracts_import_the_standard_library_and_pluggy_only() -> None:
    allowed = {*sys.stdlib_module_names, "pluggy", "kernel_spec"}
    wrong = [
        str(arrow) for arrow in arrows_here(ROOT / "spec" / "kernel_spec") if arrow.target.split(".")[0] not in allowed
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", HOUSE)
def test_no_arrow_in_the_house_points_up(package: str) -> None:
    wrong = upward(arrows_here(PACKAGES[package] / package))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", ["kernel", "spec/kernel_spec"])
def test_no_import_cycles(package: str) -> None:
    assert not cycle(arrows_here(ROOT / package))


@pytest.mark.parametrize("folder", distributions(), ids=lambda folder: folder.name)
def test_no_import_cycles_in_plugins(folder: Path) -> None:
    for package in packages_of(folder):
        assert not cycle(arrows_here(package))


def test_what_may_be_named_is_named() -> None:
    found = [arrow for package in HOUSE for arrow in arrows_here(PACKAGES[package] / package) if arrow.named]
    assert {(arrow.source, arrow.target) for arrow in found} >= NAMED
    assert any(arrow.source == COMMANDS[0] and is_inside(arrow.target, {COMMANDS[1]}) for arrow in found)


def test_the_kernel_imports_no_plugin() -> None:
    wrong = [
        str(arrow)
        for arrow in arrows_here(ROOT / "kernel")
        if arrow.target.startswith("kernel_") and arrow.target.split(".")[0] != "kernel_spec"
        if not arrow.named and (arrow.source, arrow.target) not in NAMED  # a type checker sees what is public
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", distributions(), ids=lambda folder: folder.name)
def test_plugins_keep_to_themselves(folder: Path) -> None:
    wrong, library = [], is_library(folder)
    inside = SIBLINGS.get(folder.name, frozenset())
    for package in packages_of(folder):
        public = is_public_user(folder)
        found = arrows_here(package)
        wrong += trespasses(found, package.name, public=public, tests=False, library=library, inside=inside)
    if (folder / "tests").is_dir():
        name = next((package.name for package in packages_of(folder)), "")
        found, seen = arrows_here(folder / "tests"), set(PACKAGES) if inside else inside
        wrong += trespasses(found, name, public=True, tests=True, library=library, inside=seen)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", SIBLINGS)
def test_siblings_of_the_engine_name_what_they_import_of_it(name: str) -> None:
    (folder,) = (folder for folder in distributions() if folder.name == name)
    imported = {arrow.target for package in packages_of(folder) for arrow in arrows_here(package)}
    unused = [module for module in sorted(SIBLINGS[name]) if not any(is_inside(one, {module}) for one in imported)]
    assert imported and not unused, f"{name} imports nothing of {', '.join(unused)}"


def test_there_are_plugins_to_look_at() -> None:
    assert {"scheduler_fifo", "store_plasma"} <= {folder.name for folder in distributions()}
    libraries = {folder.name for folder in distributions() if is_library(folder)}
    assert {"runs", "tune", "serve"} <= libraries and not {"scheduler_fifo", "store_plasma"} & libraries


# -- the test's own tests ------------------------------------------------------------------------------------------


def tree(root: Path, files: Mapping[str, str]) -> Path:
    """Write `files` below `root`, with an `__init__.py` in every folder, and return the top package."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in path.relative_to(root).parents:
            if str(parent) != ".":
                (root / parent / "__init__.py").touch()
        path.write_text(text)
    return root / next(iter(files)).split("/")[0]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("import kernel_processes.node.agent", ["imports kernel_processes.node.agent, which is beside it"]),
        ("def f():\n    from kernel_processes.cli import x", ["imports kernel_processes.cli, which is above it"]),
        ("from .. import node", ["runtime/mine.py:1 imports kernel_processes.node, which is beside it"]),
        ("from kernel import get", []),
        ("import kernel_processes.transport, kernel_engine.tasks.task, kernel_spec.ids, json", []),
        ("from . import yours", []),
        ("x = 'kernel_processes.node.agent'", ["names kernel_processes.node.agent, which is beside it"]),
        ("def f():\n    g('kernel_processes.node.agent:Agent')", ["mine.py:2 names kernel_processes.node.agent"]),
        ("x = 'kernel.node', 'see kernel_processes.node.agent', 'kernel_processes.node.nobody'", []),
        ("import kernel.mistery", ["imports kernel.mistery, which has no place in LAYERS"]),
    ],
)  # fmt: skip
def test_upward_arrows_are_seen(tmp_path: Path, text: str, wrong: list[str]) -> None:
    files = {"runtime/mine.py": text, "runtime/yours.py": "", "node/agent.py": "", "cli/main.py": ""}
    package = tree(tmp_path, {f"kernel_processes/{name}": content for name, content in files.items()})
    seen = upward(arrows(package))
    assert len(seen) == len(wrong)
    assert all(expected in said for said, expected in zip(seen, wrong, strict=True))


@pytest.mark.parametrize(
    "text", ["import kernel.api", "import kernel_engine.tasks.task", "x = 'kernel_processes.node.agent'"]
)
def test_the_kernel_knows_nothing_above(tmp_path: Path, text: str) -> None:
    (seen,) = upward(arrows(tree(tmp_path, {"kernel/runtime/mine.py": text})))
    assert "which is above it" in seen


def test_cycles_are_seen(tmp_path: Path) -> None:
    package = tree(
        tmp_path,
        {
            "kernel/a.py": "import kernel.b",
            "kernel/b.py": "def f():\n    from kernel import c",
            "kernel/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import x",
        },
    )
    assert cycle(arrows(package)) == ["kernel.a", "kernel.b", "kernel.c", "kernel.a"]
    (package / "c.py").write_text("")
    assert cycle(arrows(package)) == []


@pytest.mark.parametrize(
    ("text", "public", "tests", "count"),
    [
        ("import kernel_other.x", True, True, 1),
        ("from kernel.runtime import objects", True, False, 1),
        ("from kernel.runtime import objects", True, True, 1),
        ("import kernel", True, False, 0),
        ("import kernel", False, False, 1),
        ("from kernel.testing import scheduler", True, False, 1),
        ("from kernel.testing import scheduler", True, True, 0),
        ("import kernel_spec.ids, kernel_mine.other", False, False, 0),
    ],
)
def test_trespasses_are_seen(tmp_path: Path, text: str, public: bool, tests: bool, count: int) -> None:
    found = arrows(tree(tmp_path, {"kernel_mine/file.py": text}))
    assert len(trespasses(found, "kernel_mine", public=public, tests=tests)) == count


def test_siblings_of_the_engine_import_what_is_named_of_it(tmp_path: Path) -> None:
    found = arrows(
        tree(
            tmp_path,
            {"kernel_mine/file.py": "import kernel_processes.node.agent, kernel.nodes, kernel_processes.head.head"},
        )
    )
    wrong = trespasses(found, "kernel_mine", public=True, tests=False, inside={"kernel_processes.node"})
    assert [text.split(": ")[0].split()[-1] for text in wrong] == ["kernel_processes.head.head"]


def test_libraries_share_one_floor_and_back_ends_do_not(tmp_path: Path) -> None:
    found = arrows(tree(tmp_path, {"kernel_mine/file.py": "import kernel_runs.session, kernel_other"}))
    (wrong,) = trespasses(found, "kernel_mine", public=True, tests=False, library=True)
    assert "imports kernel_other: a plugin imports no other plugin" in wrong
    assert len(trespasses(found, "kernel_mine", public=True, tests=False)) == 2
