"""What is run on a host, as scripts of the POSIX shell, and what they answer.

A node has a directory of its own on its host. There are `script`, the pid of the shell that starts it, `start.json`,
what `kernel start` has printed, and the node's session. A pid counts only if its process has the node's id in its
environment: so a pid that was given to another process later is never taken for the node, and never ended.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

ID_VARIABLE = "KERNEL_PROVIDER_ID"
STARTING, RUNNING, DEAD, ABSENT = "starting", "running", "dead", "absent"
FOUND = (STARTING, RUNNING, DEAD, ABSENT)
"""What may be found: the script starts it, its agent runs, only its directory is left, nothing."""

_COMMON = """
id={id}; place={place}
agent() {{ sed -n 's/.*"agent_pid": *\\([0-9][0-9]*\\).*/\\1/p' "$place/start.json" 2>/dev/null | head -n 1; }}
lives() {{ [ -n "$1" ] && tr '\\0' '\\n' < "/proc/$1/environ" 2>/dev/null | grep -qxF "{variable}=$id"; }}
found() {{
  if lives "$(agent)"; then echo running
  elif lives "$(cat "$place/script" 2>/dev/null)"; then echo starting
  elif [ -d "$place" ]; then echo dead
  else echo absent; fi
}}
"""
_END = """
pid=$(agent)
if lives "$pid"; then
  if [ -e "$place/ended" ] && [ -n "$(find "$place/ended" -mmin +{kill_minutes})" ]; then kill -KILL "$pid"
  else [ -e "$place/ended" ] || : > "$place/ended"; kill -TERM "$pid" 2>/dev/null; fi
elif [ -d "$place" ]; then
  : > "$place/ended"
fi
case $(found) in
  dead) {clean} ; found ;;
  *) found ;;
esac
"""


@dataclass(frozen=True, slots=True)
class RemoteNode:
    """One node on a host. `directory` is where its own is made, `command` what is `kernel` there."""

    id: str
    directory: str = "/tmp"
    command: str = "kernel"

    def start_script(self, address: str, options: list[str]) -> str:
        """Return what starts the node; it reads the cluster's token as its first line. It does not start it twice."""
        arguments = [
            "start", "--address", address, "--provider-id", self.id, "--temp-dir", self._place, "--json", *options,
        ]  # fmt: skip
        inner = (
            f'place={shlex.quote(self._place)}; umask 077; mkdir "$place" || exit 3; echo $$ > "$place/script"\n'
            "IFS= read -r KERNEL_TOKEN || exit 4; export KERNEL_TOKEN\n"
            f'{self.command} {shlex.join(arguments)} > "$place/start.new" < /dev/null || '
            '{ code=$?; rm -rf "$place"; exit $code; }\n'
            'mv "$place/start.new" "$place/start.json"\n'
            'if [ -e "$place/ended" ]; then kill -TERM '
            '"$(sed -n \'s/.*"agent_pid": *\\([0-9][0-9]*\\).*/\\1/p\' "$place/start.json" | head -n 1)"; fi\n'
        )
        return f"exec env {ID_VARIABLE}={self.id} sh -c {shlex.quote(inner)}"

    def find_script(self) -> str:
        """Return what says which of `FOUND` the node is."""
        return self._common() + "found\n"

    def end_script(self, kill_minutes: int = 1) -> str:
        """Return what ends the node and says what is left. It is killed if it was asked over `kill_minutes` ago."""
        clean = f'KERNEL_TMPDIR="$place" {self.command} stop > /dev/null 2>&1 < /dev/null; rm -rf "$place"'
        return self._common() + _END.format(kill_minutes=kill_minutes, clean=clean)

    @property
    def _place(self) -> str:
        # Short, as the paths of sockets below it may have 107 characters.
        return f"{self.directory}/k{self.id.removeprefix('local-')}"

    def _common(self) -> str:
        return _COMMON.format(id=shlex.quote(self.id), place=shlex.quote(self._place), variable=ID_VARIABLE)


DETECT_SCRIPT = "nproc; (nvidia-smi -L 2>/dev/null || true) | grep -c '^GPU' || true\n"
"""Prints how many CPUs and NVIDIA GPUs a host has, a line each."""


def detected(output: str) -> dict[str, float] | None:
    """Return the resources that `DETECT_SCRIPT` has printed; None if it printed something else."""
    words = output.split()
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        return None
    return {name: float(word) for name, word in zip(("CPU", "GPU"), words, strict=True) if float(word)}


def start_options(resources: Mapping[str, float] | None, labels: Mapping[str, str]) -> list[str]:
    """Return the options of `kernel start` for resources, which it detects if None, and labels."""
    options = []
    if resources is not None:
        rest = dict(resources)
        options += ["--num-cpus", str(rest.pop("CPU", 0.0)), "--num-gpus", str(rest.pop("GPU", 0.0))]
        if "memory" in rest:
            options += ["--memory", str(int(rest.pop("memory")))]
        options += ["--resources", json.dumps(rest)] if rest else []
    return options + [part for item in labels.items() for part in ("--labels", "=".join(item))]
