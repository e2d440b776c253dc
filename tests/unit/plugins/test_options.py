"""What implementations are told: from where, in which order, and what is refused, without a word of any secret."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kernel.plugins import PluginManager
from kernel.plugins.kinds import KINDS
from kernel.plugins.options import PluginOptions
from kernel.plugins.selection import Config, read_config
from kernel_processes.head.head_service_host import HeadServiceHost
from kernel_spec.errors import OptionError
from kernel_spec.services import HeadInfo

KIND = KINDS["metadata_store"]


def make(
    directory: str,
    *,
    url: str | None = None,
    seconds: float = 5.0,
    tries: int = 3,
    sure: bool = False,
    more: Mapping[str, Any] = {},
) -> tuple[Any, ...]:
    return directory, url, seconds, tries, sure, dict(more)


def made(**sources: Any) -> tuple[Any, ...]:
    result: tuple[Any, ...] = PluginOptions(**sources).bind(KIND, "my-store", make)("there")
    return result


def test_without_options_the_factory_is_itself() -> None:
    assert PluginOptions().bind(KIND, "my-store", make) is make
    assert PluginOptions({"other": {"url": "x"}}).bind(KIND, "my-store", make) is make


def test_argument_before_environment_before_file() -> None:
    file = Config("kernel.toml", {}, {"my-store": {"url": "file", "seconds": 1, "tries": 1}})
    environment = {"KERNEL_OPTION_MY_STORE_URL": "environment", "KERNEL_OPTION_MY_STORE_TRIES": "2"}
    argument = {"my-store": {"url": "argument"}}
    assert made(config=file)[1:4] == ("file", 1.0, 1)
    assert made(config=file, environment=environment)[1:4] == ("environment", 1.0, 2)
    assert made(config=file, environment=environment, argument=argument)[1:4] == ("argument", 1.0, 2)


def test_text_of_the_environment_becomes_what_the_default_is() -> None:
    text = {"URL": "redis://host", "SECONDS": "0.5", "TRIES": "7", "SURE": "true", "MORE": '{"a": 1}'}
    environment = {f"KERNEL_OPTION_MY_STORE_{name}": value for name, value in text.items()}
    assert made(environment=environment) == ("there", "redis://host", 0.5, 7, True, {"a": 1})


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("url", 7, "must be text"),
        ("seconds", "secret", "must be a number"),
        ("tries", 1.5, "must be a whole number"),
        ("tries", True, "must be a whole number"),
        ("sure", "perhaps", "must be true or false"),
        ("more", ["secret"], "must be a mapping"),
    ],
)
def test_a_value_of_another_type_is_refused_and_not_shown(option: str, value: Any, expected: str) -> None:
    with pytest.raises(OptionError) as caught:
        made(argument={"my-store": {option: value}})
    assert str(caught.value) == f"plugin_options: the option {option!r} of the metadata store 'my-store' {expected}"


def test_an_unknown_option_is_named_with_the_nearest() -> None:
    with pytest.raises(OptionError) as caught:
        made(environment={"KERNEL_OPTION_MY_STORE_SECOND": "secret"})
    assert str(caught.value) == (
        "environment KERNEL_OPTION_MY_STORE_SECOND: the metadata store 'my-store' has no option 'second', did you mean "
        "'seconds'?; it has url, seconds, tries, sure, more"
    )
    with pytest.raises(OptionError, match="it has none"):
        PluginOptions({"bare": {"url": "secret"}}).bind(KIND, "bare", lambda directory: directory)


@pytest.mark.parametrize("shape", [{"my-store": "secret"}, {"my-store": {1: "secret"}}, ["secret"]])
def test_a_wrong_shape_is_refused(shape: Any) -> None:
    with pytest.raises(OptionError, match="options are given by the name of the implementation") as caught:
        PluginOptions(shape)
    assert "secret" not in str(caught.value)


def test_a_manager_fills_them_in(tmp_path: Path) -> None:
    (tmp_path / "kernel.toml").write_text("[options.sqlite]\nlock_seconds = 0.25\n[options.web]\nport = 80\n")
    manager = PluginManager.discover(
        {"metadata_store": "sqlite"}, environment={}, config=read_config(tmp_path / "kernel.toml")
    )
    assert manager.choose("metadata_store").keywords == {"lock_seconds": 0.25}  # type: ignore[attr-defined]
    assert manager.options_of("web") == {"port": 80}
    inherited = PluginManager.from_catalog(manager.catalog(), environment={"KERNEL_OPTION_SQLITE_LOCK_SECONDS": "x"})
    assert not hasattr(inherited.choose("metadata_store"), "keywords"), "workers are told no options"


def test_options_for_nobody_are_refused() -> None:
    with pytest.raises(OptionError, match="no installed plugin offers anything named 'sqlit', did you mean 'sqlite'"):
        PluginManager.discover(options={"sqlit": {"lock_seconds": 1}}, environment={})


def test_a_head_service_gets_its_own() -> None:
    class Service:
        name = "web"
        got: HeadInfo

        def start(self, head: HeadInfo) -> Mapping[str, Any]:
            self.got = head
            return {}

        def stop(self) -> None: ...

    service = Service()
    host = HeadServiceHost([service], {"web": {"port": 80}, "other": {}}.__getitem__, pytest.fail)
    host.start(HeadInfo("address", "directory", {}))
    host.stop()
    assert service.got == HeadInfo("address", "directory", {"port": 80})


SEALED = """
from kernel_spec import hookimpl
from kernel_spec.serialization import SerializerBase

class Sealed(SerializerBase):
    name = "sealed"

    def __init__(self, *, key="", rounds=1):
        self.told = key, rounds

@hookimpl
def kernel_contracts():
    return {"serializer": 1}

@hookimpl
def kernel_serializers():
    return {"sealed": Sealed}
"""


def test_what_every_process_uses_has_its_options_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sealed_plugin.py").write_text(SEALED)
    monkeypatch.syspath_prepend(str(tmp_path))
    manager = PluginManager.discover(
        {"serializer": "sealed"},
        options={"sealed": {"key": "secret"}},
        environment={"KERNEL_OPTION_SEALED_ROUNDS": "3"},
        config=Config("", {}, {}),
        installed=[("sealed", "sealed_plugin")],
    )
    assert manager.shared_options() == {"sealed": {"key": "secret", "rounds": 3}}
    catalog = pickle.loads(pickle.dumps(manager.catalog()))
    assert "secret" not in repr(catalog)
    for one in (manager, PluginManager.from_catalog(catalog, {})):
        (make_sealed,) = one.choose_many("serializer")
        assert make_sealed().told == ("secret", 3)
