"""The smallest plugin does what its README says."""

from __future__ import annotations

import logging

import pluggy
import pytest
from click.testing import CliRunner
from kernel_hello import plugin
from kernel_hello.command import hello
from kernel_hello.observer import Greeter

from kernel.conformance.observer import ObserverConformance
from kernel_spec import hooks
from kernel_spec.observers import ALIVE, DEAD, NODE, WORKER, LifecycleEvent


class TestGreeter(ObserverConformance):
    make_observer = staticmethod(Greeter)


def test_a_worker_is_greeted_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    greeter = Greeter()
    greeter.observe([LifecycleEvent(NODE, ALIVE, "0b", 0.0), LifecycleEvent(WORKER, ALIVE, "0a", 1.0)])
    greeter.observe([LifecycleEvent(WORKER, DEAD, "0a", 2.0)])
    assert caplog.messages == ["hello, worker 0a"]


def test_the_command_greets() -> None:
    result = CliRunner().invoke(hello, ["--who", "you"])
    assert (result.exit_code, result.output) == (0, "Hello, you!\n")


def test_the_plugin_offers_both() -> None:
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(plugin)
    manager.check_pending()
    assert manager.hook.kernel_cli_commands() == [[hello]]
    assert [type(observer) for (observer,) in manager.hook.kernel_observers()] == [Greeter]
