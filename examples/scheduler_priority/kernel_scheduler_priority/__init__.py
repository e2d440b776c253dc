"""A scheduler that serves the request with the highest `priority` hint first.

`scheduler` decides, `plugin` offers it to the kernel.
"""

from kernel_scheduler_priority.scheduler import PriorityScheduler

__all__ = ["PriorityScheduler"]
