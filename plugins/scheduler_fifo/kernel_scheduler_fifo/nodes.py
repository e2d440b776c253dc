"""The ledger of this scheduler: it finds nodes by an index, and knows who holds how many leases."""

from __future__ import annotations

from kernel_scheduler_fifo.holders import Holders
from kernel_spec.holdings import Lease
from kernel_spec.node_index import IndexedLedger


class Nodes(IndexedLedger):
    """Nodes, leases and groups, and `holders` by kind of lease."""

    def __init__(self) -> None:
        super().__init__()
        self.holders = Holders()

    def on_lease(self, lease: Lease, granted: bool) -> None:
        """Keep account of who holds how many."""
        if granted:
            self.holders.add(lease)
        else:
            self.holders.remove(lease)
