"""The default scheduler: first in, first out within a shape, no waiting behind other shapes, no request starves.

`scheduler` is the state machine; `queues` holds who waits, `nodes` who holds what and where something is free,
`finding` and `group_placing` say where leases and groups go, `reservations` what is kept for whom, `reclaim` whom to
ask for something back (of the `holders`), `explanation` why a request waits, `checks` what must always hold.
"""

from kernel_scheduler_fifo.scheduler import FifoScheduler

__all__ = ["FifoScheduler"]
