"""Constants of the product, changed in the processes of a session: its agent, its head, and the workers.

with constants({"kernel_processes.node.store_patience.PATIENCE_SECONDS": 600.0}), running_session():
    ...

So a test that is not about a limit of time does not meet it on a busy machine, and one that is told an answer although
the limit is far away knows that nothing has waited for it. Those of this process are for `monkeypatch` to change.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

_CODE = """
import sys

command = " ".join(sys.orig_argv)
if "kernel_processes.daemons.agent_main" in command or "kernel_processes.daemons.head_main" in command:
    import importlib

    for name, value in {changes!r}.items():
        module, _, constant = name.rpartition(".")
        setattr(importlib.import_module(module), constant, value)
"""


@contextmanager
def constants(changes: Mapping[str, float]) -> Iterator[None]:
    """Change constants, each named with its module, in the processes of sessions that begin in the block.

    Raises AttributeError for one that there is not.
    """
    for name in changes:
        module, _, constant = name.rpartition(".")
        getattr(importlib.import_module(module), constant)
    with tempfile.TemporaryDirectory(dir="/tmp") as site, pytest.MonkeyPatch.context() as patch:
        Path(site, "sitecustomize.py").write_text(_CODE.format(changes=dict(changes)))
        patch.syspath_prepend(site)
        yield
