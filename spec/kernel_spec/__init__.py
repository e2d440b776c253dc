"""The ground floor: every contract between the kernel and its plugins.

A plugin author depends on this package alone. It imports the standard library and pluggy, nothing else.
Start reading at `hooks.py` (all the hooks on one page), then open the contract you want to implement.
"""

from typing import Any

from kernel_spec.version import CONTRACTS, __version__

__all__ = ["CONTRACTS", "__version__", "hookimpl"]


def __getattr__(name: str) -> Any:
    # Programs that only handle errors or identifiers need not load every contract.
    if name == "hookimpl":
        from kernel_spec.hooks import hookimpl

        return hookimpl
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
