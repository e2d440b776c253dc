"""Clusters on machines that SSH reaches, described by a file of kernel's or of Ray's. Mounted as `kernel.launcher`."""

from __future__ import annotations

from kernel_launcher.config.reading import read_plan
from kernel_launcher.plan import (
    ClusterPlan,
    CommandPlan,
    ContainerPlan,
    FilePlan,
    KindPlan,
    SshAccess,
)

__all__ = ["ClusterPlan", "CommandPlan", "ContainerPlan", "FilePlan", "KindPlan", "SshAccess", "read_plan"]
