"""What is documented is what there is: names, options, hooks, errors, commands, switches, modules, links."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import pytest

import kernel
from kernel.api.options import OPTIONS, Option
from kernel.cli.main import COMMANDS
from kernel.plugins import KINDS
from kernel_spec import CONTRACTS, errors, hooks

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *DOCS.glob("*.md"),
    ROOT / "examples" / "README.md",
]
INIT = re.compile(r"kernel\.init\(([^()]*)\)")
ARGUMENT = re.compile(r"(\w+)\s*=")
SHOWN_WHOLE = ("engine", "local_mode", "processes")
"""The plugins whose README has a table of all that is in their package."""
LINK = re.compile(r"\]\(([^)\s]+)\)")


def text_of(name: str) -> str:
    """Return a page of the documentation."""
    return (DOCS / name).read_text(encoding="utf-8")


def rows_of(name: str, heading: str) -> dict[str, list[str]]:
    """Return the rows of the tables below a heading of a page: first cell, without its ticks, to the others."""
    part = text_of(name).split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| `")]
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in lines]
    return {row[0].strip("`"): row[1:] for row in rows}


def test_the_reference_is_what_the_code_says() -> None:
    made = runpy.run_path(str(DOCS / "make_reference.py"))
    assert text_of("reference.md") == made["page"](), "it is out of date; run: python docs/make_reference.py"


def test_the_page_on_the_wire_is_what_the_code_says() -> None:
    made = runpy.run_path(str(DOCS / "make_wire.py"))
    assert text_of("wire.md") == made["page"](), "it is out of date; run: python docs/make_wire.py"


def test_every_exported_name_is_in_the_reference() -> None:
    made = runpy.run_path(str(DOCS / "make_reference.py"))
    listed = [name for names in made["GROUPS"].values() for name in names] + list(made["NOT_CALLED"])
    assert sorted(listed) == sorted(kernel.__all__)


def test_every_error_is_in_the_tree_and_has_a_sentence() -> None:
    reference, tree = text_of("reference.md"), errors.__doc__ or ""
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, Exception):
            assert f"- `{name}`: " in reference
            assert re.search(rf"\b{name}\b", tree), f"{name} is missing in the tree at the top of kernel_spec/errors.py"
            assert getattr(kernel.exceptions, name) is value


def test_every_option_is_in_the_table_where_it_may_stand() -> None:
    def letters(option: Option) -> str:
        places = {"a task": "T", "an actor": "A", "an actor method": "M"}
        return " ".join(letter for place, letter in places.items() if place in option.places)

    documented = {name: cells[0] for name, cells in rows_of("users.md", "Every option").items()}
    assert documented == {name: letters(option) for name, option in OPTIONS.items()}


def test_every_command_is_in_the_guide_and_the_reference() -> None:
    assert list(rows_of("users.md", "The command line")) == [f"kernel {name}" for name in COMMANDS]
    assert all(f"\n### `kernel {name}" in text_of("reference.md") for name in COMMANDS)


def test_every_hook_is_in_the_guide_with_its_arguments() -> None:
    there = {
        f"{name}{inspect.signature(value).replace(return_annotation=inspect.Signature.empty)}"
        for name, value in vars(hooks).items()
        if hasattr(value, f"{hooks.PROJECT}_spec")
    }
    assert set(rows_of("plugins.md", "All hooks")) == there


def test_every_kind_of_plugin_is_in_the_guide() -> None:
    rows = rows_of("plugins.md", "What can be plugged in")
    assert set(rows) == set(CONTRACTS)
    for name, kind in KINDS.items():
        default = kind.default[0] if kind.default else ""
        assert rows[name][2].strip("`") == (default or ("none" if kind.pattern == "named" else "")), name


def test_every_argument_of_init_is_in_the_configuration() -> None:
    assert list(rows_of("configuration.md", "Arguments of `kernel.init`")) == list(
        inspect.signature(kernel.init).parameters
    )


def test_every_environment_variable_is_in_the_configuration() -> None:
    sources = [
        path
        for folder in ("kernel", "spec", "plugins", "tools", "examples", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        if "tests" not in path.parts
    ]
    used = {
        name for path in sources for name in re.findall(r"\bKERNEL_[A-Z][A-Z_]+\b", path.read_text(encoding="utf-8"))
    }
    documented = {name for name in rows_of("configuration.md", "Environment") if name.startswith("KERNEL_")}
    family = "KERNEL_OPTION_"  # whose other half plugins choose
    assert documented == {family if name.startswith(family) else name for name in used}


STATION = re.compile(r"^## (\w+): (\S+)$", re.MULTILINE)
NAMED_FILE = re.compile(r"`(?:(\w+):\s(\S+\.py)|((?:\w+/)+\w+\.py))`")


def package_of(distribution: str) -> Path:
    """Return the package of a distribution, as docs/index.md says it."""
    places = {"spec": ROOT / "spec" / "kernel_spec", "kernel": ROOT / "kernel"}
    return places.get(distribution, ROOT / "plugins" / distribution / f"kernel_{distribution}")


@pytest.mark.parametrize("page", sorted(DOCS.glob("life-of-*.md")), ids=lambda page: page.stem)
def test_the_stations_of_a_life_are_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    stations = STATION.findall(text)
    assert 4 < len(stations) <= 15
    assert [(name, path) for name, path in stations if not (package_of(name) / path).is_file()] == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("life-of-*.md")), ids=lambda page: page.stem)
def test_the_files_that_a_life_names_are_there(page: Path) -> None:
    """Those that are named without a distribution are of the one that the station is of."""
    for part in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        station, _, text = part.partition("\n")
        for name, there, here in NAMED_FILE.findall(text):
            place = package_of(name or station.partition(":")[0]) / (there or here)
            assert place.is_file(), f"{station} names {place.relative_to(ROOT)}"


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors_of(there), f"{page.name}: {target}"


@pytest.mark.parametrize("file", sorted(ROOT.glob("examples/*/pyproject.toml")), ids=lambda file: file.parent.name)
def test_an_example_stays_short(file: Path) -> None:
    lines = sum(len(code.read_text(encoding="utf-8").splitlines()) for code in file.parent.rglob("*.py"))
    most = 300 if file.parent.name.startswith("engine_") else 150
    assert lines < most, f"{file.parent.name} has {lines} lines of code and tests"


def test_every_argument_of_init_that_a_page_shows_is_there() -> None:
    known = set(inspect.signature(kernel.init).parameters)
    pages = [
        *ROOT.glob("*.md"),
        *(page for part in ("docs", "examples", "plugins") for page in ROOT.glob(f"{part}/**/*.md")),
    ]
    shown = {
        (page, name)
        for page in pages
        for call in INIT.findall(page.read_text("utf-8"))
        for name in ARGUMENT.findall(call)
    }
    assert len(shown) > 10
    assert not [(page, name) for page, name in shown if name not in known]


def test_the_front_page_and_the_pipeline_run_the_same_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^```console\n(.+)\n```$", readme, re.MULTILINE)
    assert len(commands) == 2, "one command runs the main job, one passes the tests"
    assert commands[1] in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_where_new_things_go_is_there() -> None:
    part = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("| a new | goes to |")[1].split("\n\n")[0]
    places = re.findall(r"`((?:docs|kernel|plugins|spec|tests|benchmarks)(?:/[\w./]+)?)`", part)
    assert len(places) > 20
    assert [place for place in places if not (ROOT / place).exists()] == []


@pytest.mark.parametrize("package", ["spec/kernel_spec", *(f"plugins/{name}/kernel_{name}" for name in SHOWN_WHOLE)])
def test_the_front_page_of_a_package_names_its_modules_and_folders(package: str) -> None:
    folder = ROOT / package
    files = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    folders = {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    cells = re.findall(r"^\| (`[^|]+) \|", (folder.parent / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(re.findall(r"`(\w+(?:\.py|/))`", " ".join(cells))) == sorted(files | folders)


def test_every_page_is_found() -> None:
    """Those that another page alone has to name are left out."""
    linked = set(re.findall(r"\]\(([\w-]+\.md)", text_of("index.md")))
    assert sorted({page.name for page in DOCS.glob("*.md")} - linked) == ["index.md", "rllib-ledger.md"]
