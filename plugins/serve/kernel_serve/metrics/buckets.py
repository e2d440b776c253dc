"""The bounds of histograms."""

from __future__ import annotations

LATENCY_MS = (
    0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0,
    500.0, 750.0, 1000.0, 2000.0, 5000.0, 10000.0, 30000.0, 60000.0,
)  # fmt: skip
"""Upper bounds of the buckets of all latencies, in milliseconds."""
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
"""Upper bounds of the buckets of sizes of batches."""
