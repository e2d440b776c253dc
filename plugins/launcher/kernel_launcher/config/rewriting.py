"""Rewrite `ray start` and `ray stop` within a command of a cluster file. Pure: text in, text and remarks out.

Where a cluster of kernel listens, what lets nodes in and which services its head has is the launcher's to say, so these
options are replaced; the others are translated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_COMMAND = re.compile(r"(?<![\w./-])ray\s+(start|stop)(?=\s|$|;|&|\|)((?:[^;&|\"']|\"[^\"]*\"|'[^']*')*)")
_WORD = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")

START_OPTIONS: Mapping[str, str] = {
    "--labels": "--labels", "--memory": "--memory", "--num-cpus": "--num-cpus", "--num-gpus": "--num-gpus",
    "--object-spilling-directory": "--spill-directory", "--object-store-memory": "--object-store-memory",
    "--plasma-directory": "--object-store-directory", "--resources": "--resources",
}  # fmt: skip
"""Options of `ray start` that say what a node has, and the same of `kernel start`."""
REPLACED = frozenset(
    {
        "--address", "--autoscaling-config", "--head", "--node-ip-address", "--port", "--redis-address",
        "--redis-password", "--redis-port", "--temp-dir",
    }
)  # fmt: skip
"""Options in whose place the launcher says its own."""
_FLAGS = frozenset(
    {
        "--block", "--disable-usage-stats", "--head", "--huge-pages", "--include-java", "--load-code-from-local",
        "--lru-evict", "--no-redirect-output", "--no-redirect-worker-output", "--verbose",
    }
)  # fmt: skip

START, STOP = "$KERNEL_START", "$KERNEL_STOP"
"""Variables that a machine has while start commands run there: what starts its node, and what ends it."""


def rewrite(command: str) -> tuple[str, list[str]]:
    """Return a command with kernel's words for Ray's, and the options that have no effect here."""
    dropped: list[str] = []

    def replace(found: re.Match[str]) -> str:
        rest = found.group(2)
        tail = rest[len(rest.rstrip()) :]
        if found.group(1) == "stop":
            return STOP + tail
        kept, left = _options(_WORD.findall(rest))
        dropped.extend(left)
        return " ".join([START, *kept]) + tail

    return _COMMAND.sub(replace, command), dropped


def _options(words: list[str]) -> tuple[list[str], list[str]]:
    kept: list[str] = []
    dropped: list[str] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        option, equals, value = word.partition("=")
        name = option.replace("_", "-")
        if not name.startswith("--"):
            kept.append(word)  # a redirection of the output, or whatever the shell makes of it
            continue
        if not equals and name not in _FLAGS and waiting and not waiting[0].startswith("-"):
            value = waiting.pop(0)
        if name in START_OPTIONS:
            kept += [START_OPTIONS[name], value]
        elif name not in REPLACED:
            dropped.append(option)
    return kept, dropped
