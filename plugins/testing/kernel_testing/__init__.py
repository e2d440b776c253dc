"""For tests of programs and plugins, `kernel.testing`: running sessions, clusters, fault injection, leak checks.

`session` starts a session and checks that it leaves nothing behind (`leaks`); `faults` finds its processes and kills,
pauses or slows them. `Cluster` is a cluster of several nodes on this machine, which can be killed, paused and cut off.
"""

from kernel_testing.cluster import Cluster, ClusterNode

__all__ = ["Cluster", "ClusterNode"]
