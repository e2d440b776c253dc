"""The plugin's hooks fit their specifications."""

from __future__ import annotations

import pluggy
from kernel_scheduler_fifo import FifoScheduler, plugin

from kernel_spec import hooks
from kernel_spec.version import CONTRACTS


def test_offers_the_scheduler_by_name() -> None:
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(plugin)
    manager.check_pending()
    assert manager.hook.kernel_schedulers() == [{"fifo": FifoScheduler}]
    assert manager.hook.kernel_contracts() == [{"scheduler": CONTRACTS["scheduler"]}]
