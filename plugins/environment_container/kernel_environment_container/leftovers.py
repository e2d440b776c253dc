"""Remove containers whose session was killed: the program that would have removed them was killed with it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable

from kernel_environment_container.commands import LABEL
from kernel_environment_container.contents import birth_of
from kernel_environment_container.programs import BUBBLEWRAP, ContainerProgram

FORMAT = "{{.ID}} {{.Labels}}"
"""What is asked of each container: its id and its labels, as `map[NAME:VALUE]` by podman and `NAME=VALUE` by docker."""

_CLIENT = re.compile(re.escape(LABEL) + r"[=:](\d+)-(\d+)")


def remove_leftovers(program: ContainerProgram) -> None:
    """Remove the containers of workers whose processes on this machine have ended.

    What can't be removed is left to the next call.
    """
    if program.kind == BUBBLEWRAP:
        return  # Its containers are processes, and nothing else.
    listing = [*program.command, "ps", "--all", "--filter", f"label={LABEL}", "--format", FORMAT]
    found = subprocess.run(listing, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    left = ended(found.stdout.decode(errors="replace").splitlines())
    if left:
        subprocess.run([*program.command, "rm", "--force", *left], stdin=subprocess.DEVNULL, check=False)


def ended(lines: Iterable[str]) -> list[str]:
    """Return the containers, of lines as `FORMAT` gives them, whose process has ended."""
    found = []
    for line in lines:
        client = _CLIENT.search(line)
        if client and birth_of(int(client[1])) != int(client[2]):
            found.append(line.partition(" ")[0])
    return found
