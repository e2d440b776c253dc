"""Selection by name: argument, environment, configuration file, default; and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.plugins import KINDS, Config, Selection, find_config, select
from kernel.plugins.selection import check_kinds
from kernel_spec.errors import OptionError

SCHEDULER, SERIALIZER = KINDS["scheduler"], KINDS["serializer"]
CONFIG = Config("/etc/kernel.toml", {"scheduler": "from-file", "serializer": ["arrow", "zlib"]})
ENVIRONMENT = {"KERNEL_SCHEDULER": "from-environment", "KERNEL_SERIALIZER": "zlib, arrow"}


def test_argument_comes_first() -> None:
    chosen = select(SCHEDULER, argument="mine", environment=ENVIRONMENT, config=CONFIG, offered=["fifo"])
    assert chosen == Selection("scheduler", ("mine",), "argument")


def test_environment_comes_before_the_file() -> None:
    chosen = select(SCHEDULER, environment=ENVIRONMENT, config=CONFIG)
    assert chosen == Selection("scheduler", ("from-environment",), "environment KERNEL_SCHEDULER")


def test_file_comes_before_the_default() -> None:
    chosen = select(SCHEDULER, environment={}, config=CONFIG, offered=["fifo"])
    assert chosen == Selection("scheduler", ("from-file",), "file /etc/kernel.toml")


@pytest.mark.parametrize(
    ("kind", "offered", "expected"),
    [
        ("scheduler", ["fifo", "local"], ("fifo",)),
        ("scheduler", ["local", "other"], ("local",)),
        ("scheduler", [], ("fifo",)),
        ("object_store", ["local"], ("plasma",)),
        ("metadata_store", ["memory", "sqlite"], ("memory",)),
        ("spill_target", ["disk"], ("disk",)),
        ("node_provider", ["manual"], ("manual",)),
        ("serializer", ["arrow"], ()),
        ("head_service", ["dashboard"], ()),
    ],
)
def test_defaults(kind: str, offered: list[str], expected: tuple[str, ...]) -> None:
    chosen = select(KINDS[kind], environment={}, offered=offered)
    assert chosen.names == expected
    assert chosen.is_default


def test_named_kinds_keep_their_order_and_take_lists_or_commas() -> None:
    assert select(SERIALIZER, environment=ENVIRONMENT).names == ("zlib", "arrow")
    assert select(SERIALIZER, environment={}, config=CONFIG).names == ("arrow", "zlib")
    assert select(SERIALIZER, argument=["b", "a"], environment={}).names == ("b", "a")
    assert select(SERIALIZER, argument="", environment=ENVIRONMENT).names == ()


def test_empty_variable_is_unset_for_a_driver_and_none_for_a_named_kind() -> None:
    assert select(SCHEDULER, environment={"KERNEL_SCHEDULER": " "}, config=CONFIG).names == ("from-file",)
    empty = select(SERIALIZER, environment={"KERNEL_SERIALIZER": ""}, config=CONFIG)
    assert empty == Selection("serializer", (), "environment KERNEL_SERIALIZER")


@pytest.mark.parametrize("value", [["a", "b"], "a,b", "", []])
def test_a_driver_is_one_name(value: object) -> None:
    with pytest.raises(OptionError, match="argument: exactly one scheduler can be selected, got"):
        select(SCHEDULER, argument=value, environment={})  # type: ignore[arg-type]


def test_a_name_is_text() -> None:
    with pytest.raises(OptionError, match=r"file f: a scheduler is selected by name, not by 7"):
        select(SCHEDULER, environment={}, config=Config("f", {"scheduler": 7}))


def test_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(
        OptionError, match=r"argument: there is no selectable plugin kind 'scheduller', did you mean 'scheduler'\?"
    ):
        check_kinds(["scheduller"], "argument")


def test_files_are_looked_for_in_order(tmp_path: Path) -> None:
    here, home, named = tmp_path / "here", tmp_path / "home", tmp_path / "named.toml"
    (home / ".config" / "kernel").mkdir(parents=True)
    here.mkdir()
    assert find_config({}, here, home) is None
    (home / ".config" / "kernel" / "kernel.toml").write_text('[plugins]\nscheduler = "home"\n')
    found = find_config({}, here, home)
    assert found is not None and found.plugins == {"scheduler": "home"}
    (here / "kernel.toml").write_text('[plugins]\nscheduler = "here"\n[other]\nx = 1\n')
    found = find_config({}, here, home)
    assert found is not None and found.plugins == {"scheduler": "here"} and found.path == str(here / "kernel.toml")
    named.write_text("")
    found = find_config({"KERNEL_CONFIG": str(named)}, here, home)
    assert found == Config(str(named), {})


def test_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"KERNEL_CONFIG=/no/such: there is no such file; correct it or unset"):
        find_config({"KERNEL_CONFIG": "/no/such"}, tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = [plugins", r"kernel\.toml can't be read as TOML: .*line 1"),
        ("plugins = 3", r"kernel\.toml: \[plugins\] must be a table such as scheduler = \"fifo\", not 3"),
        (
            "[plugins]\nobject_stor = 'x'",
            r"kernel\.toml \[plugins\]: there is no .*'object_stor', did you mean 'object_store'\?",
        ),
        ("[plugins]\naccelerator = 'x'", r"there is no selectable plugin kind 'accelerator'"),
    ],
)
def test_bad_files_are_explained(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "kernel.toml").write_text(text)
    with pytest.raises(OptionError, match=message):
        find_config({}, tmp_path, tmp_path)


names = st.text("abcdefgh-_.", min_size=1, max_size=8)


@given(
    kind=st.sampled_from([kind for kind in KINDS.values() if kind.environment]),
    argument=st.none() | names,
    variable=st.none() | names,
    configured=st.none() | names,
)
def test_the_first_source_that_speaks_decides(kind, argument, variable, configured) -> None:  # type: ignore[no-untyped-def]
    chosen = select(
        kind,
        argument=argument,
        environment={} if variable is None else {kind.environment: variable},
        config=None if configured is None else Config("f", {kind.name: configured}),
    )
    spoken = [name for name in (argument, variable, configured) if name is not None]
    assert chosen.names == ((spoken[0],) if spoken else kind.default[:1])
    assert chosen.is_default == (not spoken)
