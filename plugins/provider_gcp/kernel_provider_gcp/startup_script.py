"""What a machine is told by its metadata: a script that starts a node at each boot, and no secret."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from kernel_provider_gcp.settings import GcpSettings

_DONE = "/var/lib/kernel-setup-done"


def startup_script(
    settings: GcpSettings, resources: Mapping[str, float], labels: Mapping[str, str], secret: str
) -> str:
    """Return the script of a machine that joins by what the secret at a URL says, with these resources and labels.

    Setup commands run once, and nothing is started where one of them has failed.
    """
    given = {
        "secret": secret,
        "user": settings.user,
        "python": settings.python,
        "arguments": [*start_arguments(resources, labels), *settings.start_options],
    }
    lines = ["#!/bin/bash"]
    if settings.setup_commands:
        lines += [f"if [ ! -e {_DONE} ]; then", "(set -e", *settings.setup_commands, ")", 'code="$?"']
        lines += [f'[ "$code" = 0 ] && touch {_DONE} || exit "$code"', "fi"]
    program = Path(__file__).with_name("node_start.py").read_text()
    lines += [f"exec {shlex.quote(settings.python)} - {shlex.quote(json.dumps(given))} <<'END_OF_NODE_START'"]
    return "\n".join([*lines, program + "END_OF_NODE_START", ""])


def start_arguments(resources: Mapping[str, float], labels: Mapping[str, str]) -> list[str]:
    """Return the arguments of `kernel start` for a node with exactly these resources and labels."""
    custom = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU", "memory")}
    found = ["--num-cpus", f"{resources.get('CPU', 0.0):g}", "--num-gpus", f"{resources.get('GPU', 0.0):g}"]
    if "memory" in resources:
        found += ["--memory", str(int(resources["memory"]))]
    if custom:
        found += ["--resources", json.dumps(custom)]
    if labels:
        found += ["--labels", ",".join(f"{name}={value}" for name, value in labels.items())]
    return found
