"""The version of this distribution, and of each contract in it.

A contract's version is one integer. It rises when an implementation written against the previous one could
no longer work; additions that old implementations survive leave it alone.
"""

__version__ = "2026.11.0"

CONTRACTS: dict[str, int] = {
    "scheduler": 1,
    "object_store": 1,
    "serializer": 1,
    "node_provider": 1,
    "accelerator": 1,
    "metadata_store": 1,
    "spill_target": 1,
    "memory_guard": 1,
    "environment": 1,
    "observer": 1,
    "metrics_sink": 1,
    "cli_command": 1,
    "library": 1,
    "head_service": 1,
}
