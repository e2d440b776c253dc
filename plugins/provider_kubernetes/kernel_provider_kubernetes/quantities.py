"""Read quantities as Kubernetes writes them: `500m`, `8Gi`, `1e3`."""

from __future__ import annotations

import re

_FACTORS = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")


def quantity(given: object) -> float:
    """Return a quantity as a number. Raises ValueError, which shows it, for what is none."""
    found = _QUANTITY.fullmatch(str(given).strip()) if isinstance(given, (str, int, float)) else None
    if found is None or isinstance(given, bool):
        raise ValueError(f"{given!r} is no quantity of Kubernetes, such as 500m, 4 or 8Gi")
    number, exponent, suffix = found.groups()
    return float(f"{number}e{exponent}") if exponent else float(number) * _FACTORS[suffix or ""]
