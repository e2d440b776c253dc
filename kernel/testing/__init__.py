"""For tests of plugins and programs: conformance suites, running sessions, fault injection, leak checks.

Each contract of `kernel_spec` has a suite in a file of its own; subclass it, say how to make yours, and run pytest.
`session` starts a session and checks that it leaves nothing behind (`leaks`); `faults` finds its processes and kills,
pauses or slows them. `Cluster` is a cluster of several nodes on this machine, which can be killed, paused and cut off.
"""

from kernel.testing.cluster import Cluster, ClusterNode

__all__ = ["Cluster", "ClusterNode"]
