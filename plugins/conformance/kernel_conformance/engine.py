"""The conformance suite for engines: what every engine promises, tried through the public API.

    class TestMyEngine(EngineConformance):
        make_session = staticmethod(open_session)

`make_session` is what the engine's entry point names. Say what yours leaves out by class attributes, such as
`placement_groups = False`; they stand in `kernel_conformance.engine_suite`. Tests of what it leaves out return at once,
or see that it is refused. Each test begins a session of its own, so there must be none.
"""

from __future__ import annotations

from kernel_conformance.engine_actors import EngineActors
from kernel_conformance.engine_sessions import EngineSessions
from kernel_conformance.engine_streams import EngineStreams
from kernel_conformance.engine_tasks import EngineTasks
from kernel_spec.engines import OpenEngine


class EngineConformance(EngineTasks, EngineActors, EngineStreams, EngineSessions):
    """Subclass it, name what opens your sessions, run pytest."""

    make_session: OpenEngine
    """Opens a session: what the engine's entry point names."""
