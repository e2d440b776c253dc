"""The plugin manager: discovery, contracts, conflicts, broken plugins, catalogs, subsets and tracing."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel.installing import install_command
from kernel.plugins import PluginManager
from kernel_spec import CONTRACTS, __version__
from kernel_spec.errors import ContractError, OptionError, PluginError, PluginNotFoundError

HEADER = "from kernel_spec import hookimpl\n"

Discover = Callable[..., PluginManager]


def plugin_text(offers: dict[str, list[str]], contracts: dict[str, int] | None = None) -> str:
    """Source of a plugin whose factories return `(kind, name)`; `offers` is hook to names."""
    kinds = {
        "kernel_schedulers": "scheduler",
        "kernel_serializers": "serializer",
        "kernel_head_services": "head_service",
    }
    if contracts is None:
        contracts = {kinds[hook]: CONTRACTS[kinds[hook]] for hook in offers}
    text = HEADER + f"@hookimpl\ndef kernel_contracts():\n    return {contracts!r}\n"
    for hook, names in offers.items():
        items = ", ".join(f"{name!r}: lambda: ({kinds[hook]!r}, {name!r})" for name in names)
        text += f"@hookimpl\ndef {hook}():\n    return {{{items}}}\n"
    return text


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Callable[[str, str], str]:
    """Write a plugin module that can be imported during the test; returns its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    written: list[str] = []

    def write(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        written.append(name)
        return name

    request.addfinalizer(lambda: [sys.modules.pop(name, None) for name in written])
    return write


@pytest.fixture
def discover(tmp_path: Path) -> Discover:
    """`PluginManager.discover` with given plugins and environment, and no configuration file."""

    def discover(*installed: tuple[str, str], environment: dict[str, str] | None = None, **more: Any) -> PluginManager:
        nothing = tmp_path / "empty.toml"
        nothing.touch()
        environment = {"KERNEL_CONFIG": str(nothing), **(environment or {})}
        return PluginManager.discover(installed=installed, environment=environment, **more)

    return discover


# -- choosing ------------------------------------------------------------------------------------------------------


def test_the_built_in_plugin_offers_every_driver_but_the_real_store(discover: Discover) -> None:
    manager = discover()
    assert manager.problems == {}
    assert manager.offered("scheduler") == {"local": ("local",)}
    assert [info.name for info in manager.plugins()] == ["local"]
    for kind in ("scheduler", "metadata_store", "spill_target", "node_provider"):
        assert callable(manager.choose(kind))
    assert callable(manager.choose("object_store", "local"))


def test_an_installed_fifo_becomes_the_default(discover: Discover, write: Callable[[str, str], str]) -> None:
    module = write("good_plugin", plugin_text({"kernel_schedulers": ["fifo", "other"]}))
    manager = discover(("good", module))
    assert manager.choose("scheduler")() == ("scheduler", "fifo")
    assert manager.choose("scheduler", "other")() == ("scheduler", "other")
    assert manager.selection("scheduler").source == "default"


def test_selection_by_argument_and_environment(discover: Discover, write: Callable[[str, str], str]) -> None:
    module = write("good_plugin", plugin_text({"kernel_schedulers": ["fifo", "a", "b"]}))
    environment = {"KERNEL_SCHEDULER": "a"}
    assert discover(("good", module), environment=environment).choose("scheduler")() == ("scheduler", "a")
    manager = discover(("good", module), environment=environment, selected={"scheduler": "b"})
    assert manager.choose("scheduler")() == ("scheduler", "b")
    assert manager.selection("scheduler").source == "argument"


def test_named_kinds_come_in_order(discover: Discover, write: Callable[[str, str], str]) -> None:
    first = write("first_plugin", plugin_text({"kernel_serializers": ["arrow"]}))
    second = write("second_plugin", plugin_text({"kernel_serializers": ["zlib"], "kernel_head_services": ["web"]}))
    manager = discover(("first", first), ("second", second), environment={"KERNEL_SERIALIZER": "zlib,arrow"})
    assert [factory()[1] for factory in manager.choose_many("serializer")] == ["zlib", "arrow"]
    assert [factory()[1] for factory in manager.choose_many("serializer", "arrow")] == ["arrow"]
    assert manager.choose_many("head_service") == []
    assert [factory()[1] for factory in manager.choose_many("head_service", ["web"])] == ["web"]


def test_hook_kinds_come_from_everybody(discover: Discover, write: Callable[[str, str], str]) -> None:
    text = HEADER + (
        "@hookimpl\ndef kernel_contracts():\n    return {'observer': 1}\n"
        "class Observer:\n    name = __name__\n    def observe(self, events): ...\n"
        "@hookimpl\ndef kernel_observers():\n    return [Observer()]\n"
    )
    manager = discover(("a", write("observer_a", text)), ("b", write("observer_b", text)))
    observers = manager.all("observer")
    assert [observer.name for observer in observers] == ["observer_a", "observer_b"]
    assert manager.label(observers[1]) == "the observer of the plugin 'b'"
    assert manager.all("cli_command") == []


def test_two_accelerators_for_one_resource_are_refused(discover: Discover, write: Callable[[str, str], str]) -> None:
    text = HEADER + (
        "class Device:\n    resource = 'GPU'\n"
        "    def detect(self, environment): ...\n    def isolate(self, *more): ...\n"
        "@hookimpl\ndef kernel_contracts():\n    return {'accelerator': 1}\n"
        "@hookimpl\ndef kernel_accelerators():\n    return [Device()]\n"
    )
    manager = discover(("a", write("device_a", text)), ("b", write("device_b", text)))
    with pytest.raises(ContractError, match="resource 'GPU' is offered by the plugin 'a' and the plugin 'b'"):
        manager.all("accelerator")


def test_an_object_with_hooks_can_be_a_plugin(discover: Discover, write: Callable[[str, str], str]) -> None:
    text = HEADER + (
        "class Plugin:\n"
        "    @hookimpl\n    def kernel_contracts(self):\n        return {'scheduler': 1}\n"
        "    @hookimpl\n    def kernel_schedulers(self):\n        return {'mine': dict}\n"
        "class names:\n    plugin = Plugin()\n"
    )
    manager = discover(("objective", write("objective_plugin", text) + ":names.plugin"))
    assert manager.choose("scheduler", "mine") is dict


# -- what is missing -----------------------------------------------------------------------------------------------


def test_missing_official_names_what_to_install(discover: Discover) -> None:
    with pytest.raises(PluginNotFoundError) as caught:
        discover().choose("object_store")
    assert str(caught.value) == (
        "there is no object store named 'plasma' (the default); installed: local. "
        f"To get it: {install_command('store_plasma')}"
    )


def test_missing_name_suggests_the_nearest(discover: Discover, write: Callable[[str, str], str]) -> None:
    module = write("good_plugin", plugin_text({"kernel_schedulers": ["priority"]}))
    with pytest.raises(PluginNotFoundError) as caught:
        discover(("good", module), environment={"KERNEL_SCHEDULER": "priorty"}).choose("scheduler")
    assert str(caught.value) == (
        "there is no scheduler named 'priorty' (selected by environment KERNEL_SCHEDULER), did you mean 'priority'?; "
        "installed: local, priority. To get it, install a plugin that offers it; "
        "`kernel plugins new scheduler priorty` starts one"
    )


def test_kinds_are_taken_by_their_pattern(discover: Discover) -> None:
    manager = discover()
    with pytest.raises(ValueError, match="'serializer' is no kind of plugin that can be taken this way"):
        manager.choose("serializer")
    with pytest.raises(ValueError, match="'scheduler' is no kind .*; there are accelerator, observer, cli_command"):
        manager.all("scheduler")
    with pytest.raises(OptionError, match="argument: there is no selectable plugin kind 'sheduler'"):
        discover(selected={"sheduler": "x"})


# -- broken plugins ------------------------------------------------------------------------------------------------


def test_broken_plugin_is_reported_once_and_skipped(
    discover: Discover, write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    module = write("scheduler_bad", "import no_such_module_anywhere\n")
    manager = discover(("scheduler_bad", module))
    discover(("scheduler_bad", module))
    assert isinstance(manager.problems["scheduler_bad"], ModuleNotFoundError)
    assert callable(manager.choose("scheduler"))
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("the installed plugin 'scheduler_bad' could not be loaded and is left out") == 1
    assert 'scheduler_bad.py", line 1' in output.err, "the author sees where"
    assert "scheduler_bad" in output.err and "no_such_module_anywhere" in output.err


def test_broken_plugin_that_was_selected_stops_with_its_error(
    discover: Discover, write: Callable[[str, str], str]
) -> None:
    module = write("scheduler_bad2", "1 / 0\n")
    manager = discover(("scheduler_bad2", module))
    with pytest.raises(PluginError, match="the scheduler 'bad2' .* comes from the plugin 'scheduler_bad2'") as caught:
        manager.choose("scheduler", "bad2")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(PluginError, match="plugin 'scheduler_bad2' was asked for but is broken: ZeroDiv") as caught:
        discover(("scheduler_bad2", module), only=["scheduler_bad2"])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_missing_name_mentions_broken_plugins(discover: Discover, write: Callable[[str, str], str]) -> None:
    manager = discover(("mystery", write("mystery_plugin", "raise OSError('no')\n")))
    with pytest.raises(PluginNotFoundError, match="These plugins are broken and might have offered it: mystery"):
        manager.choose("scheduler", "zzz")


def test_even_a_plugin_that_exits_on_import_is_only_skipped(
    discover: Discover, write: Callable[[str, str], str]
) -> None:
    manager = discover(("rude", write("rude_plugin", "raise SystemExit(3)\n")))
    assert "rude_plugin called sys.exit" in str(manager.problems["rude"])


def test_plugin_that_raises_in_a_hook_is_skipped(discover: Discover, write: Callable[[str, str], str]) -> None:
    text = HEADER + (
        "@hookimpl\ndef kernel_contracts():\n    return {'observer': 1, 'scheduler': 1}\n"
        "@hookimpl\ndef kernel_observers():\n    raise KeyError('later')\n"
    )
    manager = discover(("late", write("late_plugin", text)))
    assert manager.problems == {}
    assert manager.all("observer") == []
    assert isinstance(manager.problems["late"], KeyError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            plugin_text({"kernel_schedulers": ["x"]}, {"scheduler": 0}),
            "plugin 'p' was written for version 0 of the scheduler contract, this kernel has version 1: "
            "update the plugin",
        ),
        (
            plugin_text({"kernel_schedulers": ["x"]}, {"scheduler": 99}),
            "plugin 'p' was written for version 99 of the scheduler contract, this kernel has version 1: update kernel",
        ),
        (
            plugin_text({"kernel_schedulers": ["x"]}, {"sheduler": 1}),
            f"plugin 'p' was written for the contract 'sheduler', which kernel-spec {__version__} does not have, "
            "did you mean 'scheduler'?",
        ),
        (
            HEADER + "@hookimpl\ndef kernel_schedulers():\n    return {}\n",
            "plugin 'p' implements kernel_schedulers but does not say for which version of the scheduler contract: "
            "let its kernel_contracts return {'scheduler': 1} as well",
        ),
        (
            HEADER + "@hookimpl\ndef kernel_contracts():\n    return ['scheduler']\n",
            "plugin 'p': kernel_contracts must return a mapping such as {'scheduler': 1}, not ['scheduler']",
        ),
        (
            HEADER + "@hookimpl\ndef kernel_schedulers(clock):\n    return {}\n",
            "plugin 'p': its kernel_schedulers asks for clock, but the hook takes no arguments",
        ),
        (
            HEADER + "@hookimpl\ndef kernel_scheduler():\n    return {}\n",
            "plugin 'p' implements the hook 'kernel_scheduler', which does not exist, did you mean "
            "'kernel_schedulers'?; the hooks are listed in kernel_spec/hooks.py",
        ),
        (
            "x = 1\n",
            "plugin 'p' implements no hook: mark its functions with `@hookimpl` from kernel_spec, or point its entry "
            "point at the module that has them",
        ),
        (
            HEADER + "@hookimpl\ndef kernel_contracts():\n    return {'scheduler': 1}\n"
            "@hookimpl\ndef kernel_schedulers():\n    return [1]\n",
            "plugin 'p': kernel_schedulers must return a mapping of name to factory, not [1]",
        ),
        (
            HEADER + "@hookimpl\ndef kernel_contracts():\n    return {'scheduler': 1}\n"
            "@hookimpl\ndef kernel_schedulers():\n    return {'a': 5}\n",
            "plugin 'p': kernel_schedulers must map a name without commas to something callable, not 'a' to 5",
        ),
    ],
)
def test_a_plugin_that_does_not_fit_is_told_why(
    discover: Discover, write: Callable[[str, str], str], text: str, message: str
) -> None:
    problem = discover(("p", write("misfit_plugin", text))).problems["p"]
    assert isinstance(problem, ContractError)
    assert str(problem) == message


# -- conflicts -----------------------------------------------------------------------------------------------------


def test_same_name_from_two_plugins_is_refused_with_both_named(
    discover: Discover, write: Callable[[str, str], str]
) -> None:
    text = plugin_text({"kernel_schedulers": ["fifo", "own"]})
    manager = discover(("a", write("rival_a", text)), ("b", write("rival_b", text.replace("own", "else"))))
    assert manager.choose("scheduler", "own")() == ("scheduler", "own")
    with pytest.raises(ContractError, match="'fifo' is offered by the plugin 'a' and the plugin 'b': a name must have"):
        manager.choose("scheduler")


def test_two_plugins_called_the_same(discover: Discover, write: Callable[[str, str], str]) -> None:
    one = write("twin_one", plugin_text({"kernel_schedulers": ["one"]}))
    two = write("twin_two", plugin_text({"kernel_schedulers": ["two"]}))
    manager = discover(("twin", one), ("twin", two), ("local", two))
    assert "two plugins are called 'twin': twin_" in str(manager.problems["twin"])
    assert manager.offered("scheduler") == {"local": ("local",)}
    assert callable(manager.choose("scheduler", "local"))


# -- subsets -------------------------------------------------------------------------------------------------------


def test_only_a_given_set_is_loaded(discover: Discover, write: Callable[[str, str], str]) -> None:
    good = write("subset_good", plugin_text({"kernel_schedulers": ["good"]}))
    bad = write("subset_bad", "raise AssertionError('must not be imported')\n")
    installed = (("good", good), ("bad", bad))
    assert set(discover(*installed, environment={"KERNEL_PLUGINS": "good"}).offered("scheduler")) == {"good", "local"}
    nothing = discover(*installed, environment={"KERNEL_PLUGINS": ""})
    assert set(nothing.offered("scheduler")) == {"local"} and nothing.problems == {}
    assert set(discover(*installed, only=["good"], environment={"KERNEL_PLUGINS": ""}).offered("scheduler")) == {
        "good",
        "local",
    }
    with pytest.raises(PluginNotFoundError, match=r"there is no plugin named 'goood', did you mean 'good'\?"):
        discover(*installed, environment={"KERNEL_PLUGINS": "goood"})
    with pytest.raises(PluginNotFoundError, match=re.escape(f"To get it: {install_command('accelerator_nvidia')}")):
        discover(environment={"KERNEL_PLUGINS": "accelerator_nvidia"})


# -- catalogs ------------------------------------------------------------------------------------------------------


def test_a_catalog_imports_only_what_is_used(discover: Discover, write: Callable[[str, str], str]) -> None:
    used = write("catalog_used", plugin_text({"kernel_schedulers": ["used"]}))
    unused = write("catalog_unused", plugin_text({"kernel_schedulers": ["unused"]}))
    found = discover(("used", used), ("unused", unused), selected={"scheduler": "used"})
    catalog = pickle.loads(pickle.dumps(found.catalog()))
    for name in (used, unused):
        del sys.modules[name]
    manager = PluginManager.from_catalog(catalog, environment={"KERNEL_SCHEDULER": "ignored"})
    assert manager.selection("scheduler") == found.selection("scheduler")
    assert manager.choose("scheduler")() == ("scheduler", "used")
    assert used in sys.modules and unused not in sys.modules
    assert manager.catalog() == catalog


def test_a_catalog_whose_module_vanished(discover: Discover, write: Callable[[str, str], str], tmp_path: Path) -> None:
    module = write("catalog_gone", plugin_text({"kernel_schedulers": ["gone"]}))
    catalog = discover(("gone", module)).catalog()
    (tmp_path / f"{module}.py").unlink()
    sys.modules.pop(module)
    with pytest.raises(PluginError, match="the scheduler 'gone' .* comes from the plugin 'gone', which is broken"):
        PluginManager.from_catalog(catalog).choose("scheduler", "gone")


def test_a_catalog_carries_problems(discover: Discover, write: Callable[[str, str], str]) -> None:
    catalog = discover(("serializer_sad", write("sad_plugin", "raise OSError('sad')\n"))).catalog()
    manager = PluginManager.from_catalog(pickle.loads(pickle.dumps(catalog)))
    with pytest.raises(PluginError, match="OSError: sad"):
        manager.choose_many("serializer", ["sad"])


def test_a_worker_discovers_nothing(discover: Discover) -> None:
    data = pickle.dumps(discover().catalog())
    code = (
        "import pickle, sys\nimport kernel.plugins.manager\nfrom kernel.plugins import PluginManager\n"
        "kernel.plugins.manager.entry_points = lambda group: print('looked for', group)\n"
        f"PluginManager.from_catalog(pickle.loads(bytes.fromhex({data.hex()!r}))).choose('spill_target')\n"
        "print('done')"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=200)
    assert result.stdout == "done\n", result.stderr


# -- discovery and tracing -----------------------------------------------------------------------------------------


def test_entry_points_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[str, str], str]
) -> None:
    module = write("found_plugin", plugin_text({"kernel_schedulers": ["found"]}))
    info = tmp_path / "kernel_found-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kernel-found\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[kernel.plugins]\nfound = {module}\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    manager = PluginManager.discover(only=["found"])
    assert manager.choose("scheduler", "found")() == ("scheduler", "found")


def test_hook_calls_can_be_traced(
    discover: Discover, write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    module = write("traced_plugin", plugin_text({"kernel_schedulers": ["traced"]}))
    discover(("traced", module), environment={"KERNEL_TRACE_PLUGINS": "1"})
    output = capsys.readouterr()
    assert output.out == ""
    lines = [line for line in output.err.splitlines() if "hook call" in line and "traced" in line]
    assert len(lines) == 2
    assert "kernel_contracts" in lines[0] and "{'scheduler': 1}" in lines[0]
    assert "kernel_schedulers" in lines[1] and "microseconds" in lines[1]


def test_nothing_is_traced_unless_asked(discover: Discover, capsys: pytest.CaptureFixture[str]) -> None:
    discover(environment={"KERNEL_TRACE_PLUGINS": "0"})
    assert "hook call" not in capsys.readouterr().err
