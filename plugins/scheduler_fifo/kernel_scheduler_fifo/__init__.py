"""The default scheduler: first in, first out within a shape, no waiting behind other shapes, nobody starves.

`scheduler` is the state machine; `lines` holds who waits, `nodes` who holds what, `placement` says where a request
may go, `reclaim` whom to ask for something back, `explanation` why somebody waits, `checks` what must always hold.
"""

from kernel_scheduler_fifo.scheduler import FifoScheduler

__all__ = ["FifoScheduler"]
