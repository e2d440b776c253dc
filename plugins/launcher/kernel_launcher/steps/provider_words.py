"""What Ray's files call otherwise than the node providers of kernel do. Pure: one section in, another out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def provider_words(provider: str, section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of a file in the words of a provider. What has no other word stays: the provider checks it."""
    found = dict(section)
    if provider in ("aws", "gcp"):
        zones = found.pop("availability_zone", None)
        if zones:
            found["zones"] = [zone.strip() for zone in str(zones).split(",")]
    if provider == "gcp":
        found.pop("region", None)  # It is that of the zones.
        if "project_id" in found:
            found["project"] = found.pop("project_id")
    if provider == "aws" and not found.get("use_internal_ips"):
        found.pop("use_internal_ips", None)  # It is what holds without it.
    return found


def kind_words(provider: str, options: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return what a provider is told of a kind: its own words for a machine, and the labels of its node."""
    found = dict(options)
    if provider == "gcp" and isinstance(found.get("scheduling"), list):  # Ray's files have a list of settings.
        found["scheduling"] = {key: value for each in found["scheduling"] for key, value in each.items()}
    if labels:
        found["node_labels" if provider == "gcp" else "labels"] = dict(labels)
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
