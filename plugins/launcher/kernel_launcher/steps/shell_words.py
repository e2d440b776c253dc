"""Words for the shell of another machine. `~` is expanded there, by that shell, never here."""

from __future__ import annotations

import shlex
from collections.abc import Mapping


def remote_path(path: str) -> str:
    """Return a path as a word of the shell: `~` and `~user` at its beginning are left to the shell there."""
    if not path.startswith("~"):
        return shlex.quote(path)
    user, slash, rest = path.partition("/")
    home = '"$HOME"' if user == "~" else user if user[1:].replace("-", "").replace("_", "").isalnum() else ""
    if not home:
        return shlex.quote(path)
    return f"{home}/{shlex.quote(rest)}" if slash and rest else home + slash


def in_login_shell(command: str, variables: Mapping[str, str]) -> str:
    """Return what runs a command as a person's shell would, with what ~/.bash_profile and ~/.bashrc set up.

    Only an interactive bash reads all of ~/.bashrc. What it says about having no terminal is left out; what the command
    says is not.
    """
    exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in variables.items())
    # In parentheses, since a login shell that is told to exit says so.
    inner = f"exec 2>&3 3>&-; {exports}({command}\n)"
    return f"bash --login -i -c {shlex.quote(inner)} 3>&2 2>/dev/null"


def in_container(program: str, name: str, command: str, terminal: bool = False) -> str:
    """Return what runs a command, which is one for a shell, in a container."""
    return f"{program} exec -i{'t' if terminal else ''} {shlex.quote(name)} sh -c {shlex.quote(command)}"
