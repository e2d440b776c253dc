"""Both engines of the kernel pass the suite."""

from __future__ import annotations

import kernel_local_mode.engine
from kernel_conformance.engine import EngineConformance

import kernel_processes.session.engine


class TestLocalMode(EngineConformance):
    make_session = staticmethod(kernel_local_mode.engine.open_session)
    concurrent = False
    refused = ({"address": "auto"},)


class TestProcesses(EngineConformance):
    make_session = staticmethod(kernel_processes.session.engine.open_session)
