"""The table holds together: every target is there, every old name leads to a new one, and every word is kernel's."""

from __future__ import annotations

import importlib
import importlib.util
import inspect

import pytest
from kernel_compat_ray import command_words, facade, names, option_names

import kernel
from kernel.exceptions import KernelError

TARGETS = sorted(
    {(f"{module}.{name}", target) for module, found in names.NAMES.items() for name, target in found.items()}
)
LIBRARY_OF_ANOTHER = "kernel.parallel"
"""Its names are tested by the programs that use them; here, that the library is known."""

NEED_ANOTHER_LIBRARY = {
    "kernel.rllib.first_generation.torch_action_dist",
    "kernel.rllib.modules.model_v2",
    "kernel.rllib.modules.rl_module",
    *(f"kernel.tune.integration.{library}" for library in ("keras", "lightgbm", "lightning", "xgboost")),
}


@pytest.mark.parametrize(("name", "target"), TARGETS, ids=[name for name, _ in TARGETS])
def test_every_target_is_there(name: str, target: str) -> None:
    module, _, attribute = target.partition(":")
    if module.startswith(LIBRARY_OF_ANOTHER):
        assert importlib.util.find_spec(LIBRARY_OF_ANOTHER) is not None
        return
    if module in NEED_ANOTHER_LIBRARY:
        assert importlib.util.find_spec(module) is not None
        return
    if not attribute:
        assert importlib.import_module(module).__all__
        return
    assert facade.load(target) is not None
    if module == "kernel":
        assert attribute in kernel.__all__


@pytest.mark.parametrize("old", sorted(names.RENAMED))
def test_an_old_name_leads_to_one_that_is_there(old: str) -> None:
    assert facade.resolve(names.RENAMED[old]) is not None
    assert old.rpartition(".")[0] in names.NAMES


def test_a_module_that_moved_leads_to_one_that_is_there() -> None:
    assert set(names.MODULES_RENAMED.values()) <= names.NAMES.keys()


def test_no_name_is_said_twice() -> None:
    listed = {name for name, _ in TARGETS}
    assert (
        not listed & names.RENAMED.keys() and not listed & names.REFUSED.keys() and not listed & names.CONSTANTS.keys()
    )
    assert not names.NAMES.keys() & names.MODULES_RENAMED.keys()
    assert not names.NAMES.keys() & names.MODULES_REFUSED.keys()
    assert not {full.rpartition(".")[0] for full in (*names.CONSTANTS, *names.REFUSED)} - names.NAMES.keys()


def test_every_error_of_ray_is_one_of_kernel() -> None:
    for name in names.NAMES["ray.exceptions"]:
        error = facade.resolve(f"ray.exceptions.{name}")
        assert issubclass(error, KernelError) and error.__doc__


def test_every_option_is_known_to_kernel() -> None:
    known = importlib.import_module("kernel.api.options").OPTIONS
    assert {*option_names.OPTIONS_RENAMED.values(), *option_names.OPTIONS_TRANSLATED.values()} <= known.keys()
    assert not {*option_names.OPTIONS_IGNORED, *option_names.OPTIONS_REFUSED} & known.keys()
    parameters = inspect.signature(kernel.init).parameters
    assert set(option_names.INIT_RENAMED.values()) | set(option_names.INIT_TRANSLATED.values()) <= set(parameters)
    ignored = set(option_names.INIT_IGNORED)
    assert not ignored & set(parameters) and option_names.QUIETLY_IGNORED - {"configure_logging"} <= ignored


def test_every_command_and_option_is_one_of_kernel() -> None:
    from kernel_compat_ray.plugin import kernel_cli_commands

    main = importlib.import_module("kernel.cli.main")
    known = {*main.COMMANDS, *(command.name for command in kernel_cli_commands()), *command_words.LAUNCHER}
    assert {target for target in command_words.COMMANDS.values() if target[0] != "-"} <= known
    start = importlib.import_module("kernel_processes.cli.start_command").start
    options = {option for parameter in start.params for option in parameter.opts}
    assert set(command_words.START_OPTIONS.values()) <= options
    assert not command_words.START_IGNORED.keys() & command_words.START_OPTIONS.keys()
