"""What Ray's files call otherwise than the node providers of kernel do. Pure: one section in, another out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def provider_words(provider: str, section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of a file in the words of a provider. What has no other word stays: the provider checks it."""
    found = dict(section)
    if provider == "aws":
        zones = found.pop("availability_zone", None)
        if zones:
            found["zones"] = [zone.strip() for zone in str(zones).split(",")]
        if not found.get("use_internal_ips"):
            found.pop("use_internal_ips", None)  # It is what holds without it.
    return found


def has_provider(name: str) -> str:
    """Return the command that fails where an autoscaler with that provider can't run, and says what to install."""
    offered = "kernel plugins list --json | tr -d ' \\n'"
    said = (
        f"the autoscaler, or its node provider {name!r}, is not installed here; let a command under setup_commands "
        f"install kernel with the extras autoscaler and provider_{name}"
    )
    return (
        f"""found=$({offered}); for each in '"head_service":[^]]*"autoscaler"' '"node_provider":[^]]*"{name}"'; do """
        f"""printf %s "$found" | grep -q "$each" || {{ echo {_quoted(said)} >&2; exit 1; }}; done"""
    )


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
