"""What a machine is handed by EC2: a script that starts a node at each boot, and no secret."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from kernel_provider_aws.settings import NodeStart, wrong

MOST_BYTES = 16384
"""How large EC2 lets user data be."""
_DONE = "/var/lib/kernel-setup-done"
_PARTS = """\
Content-Type: multipart/mixed; boundary="==kernel=="
MIME-Version: 1.0

--==kernel==
Content-Type: text/cloud-config; charset="utf-8"

#cloud-config
cloud_final_modules:
- [scripts-user, always]

--==kernel==
Content-Type: text/x-shellscript; charset="utf-8"

{script}
--==kernel==--
"""


def user_data(
    start: NodeStart,
    resources: Mapping[str, float],
    labels: Mapping[str, str],
    parameter: str,
    region: str,
    domain: str = "amazonaws.com",
) -> str:
    """Return the user data of a machine that joins by what `parameter` says, with these resources and labels.

    `domain` is that of AWS's services in the region. Raises NodeProviderError for more than 16 KiB.
    """
    script = start_script(start, resources, labels, parameter, region, domain)
    data = _PARTS.format(script=script)
    if len(data.encode()) > MOST_BYTES:
        raise wrong(
            f"the user data of a machine is {len(data.encode())} bytes, and EC2 takes {MOST_BYTES}: put setup_commands "
            "into the image"
        )
    return data


def start_script(
    start: NodeStart,
    resources: Mapping[str, float],
    labels: Mapping[str, str],
    parameter: str,
    region: str,
    domain: str,
) -> str:
    """Return the script itself. Setup commands run once, and nothing is started where one of them has failed."""
    given = {
        "parameter": parameter,
        "region": region,
        "domain": domain,
        "user": start.user,
        "python": start.python,
        "arguments": [*start_arguments(resources, labels), *start.start_options],
    }
    lines = ["#!/bin/bash"]
    if start.setup_commands:
        lines += [f"if [ ! -e {_DONE} ]; then", "(set -e", *start.setup_commands, ")", 'code="$?"']
        lines += [f'[ "$code" = 0 ] && touch {_DONE} || exit "$code"', "fi"]
    program = Path(__file__).with_name("node_start.py").read_text()
    lines += [f"exec {shlex.quote(start.python)} - {shlex.quote(json.dumps(given))} <<'END_OF_NODE_START'"]
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
